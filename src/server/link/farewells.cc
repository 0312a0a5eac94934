#include "server/link/farewells.h"

#include <utility>

namespace tally::server {

void Farewells::add(std::vector<std::shared_ptr<Link>> links, std::function<void()> released) {
  const MutexLock lock(mutex_);
  waiting_.push_back({.links = std::move(links), .released = std::move(released)});
}

void Farewells::look() {
  std::vector<Farewell> over;
  {
    const MutexLock lock(mutex_);
    for (Farewell& one : waiting_) {
      std::erase_if(one.links, [](const auto& link) { return !link->discard(); });
      if (one.links.empty()) over.push_back(std::move(one));
    }
    std::erase_if(waiting_, [](const Farewell& one) { return one.links.empty(); });
  }
  for (const Farewell& one : over) one.released();
}

void Farewells::clear() {
  std::vector<Farewell> forgotten;  // without the lock
  {
    const MutexLock lock(mutex_);
    forgotten.swap(waiting_);
  }
}

}  // namespace tally::server
