#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "server/link/link.h"

namespace tally::server {

// Links to neighbours that this side has ended and the other may not have noticed: until it closes
// its end it may read and write memory that was shown to it. Threads: safe.
class Farewells final {
 public:
  // Closed links, whose writing side is shut down; nobody else uses them. `released` is called by
  // look(), without locks, when the peer has closed them all.
  void add(std::vector<std::shared_ptr<Link>> links, std::function<void()> released);
  void look();
  // Forgets everybody.
  void clear();

 private:
  struct Farewell {
    std::vector<std::shared_ptr<Link>> links;
    std::function<void()> released;
  };
  Mutex mutex_;
  std::vector<Farewell> waiting_ TALLY_GUARDED_BY(mutex_);
};

}  // namespace tally::server
