#pragma once
#include <cstddef>
#include <vector>

#include "base/mutex.h"

namespace tally::server {

// Memory of payloads that were sent, for those that will be: new memory of this size costs as much
// as sending it, because the system hands out every page empty. Threads: safe.
class PayloadPool final {
 public:
  // Of any content.
  std::vector<std::byte> take(std::size_t bytes);
  // Kept, or freed where there is enough already.
  void give(std::vector<std::byte> memory);

 private:
  Mutex mutex_;
  std::vector<std::vector<std::byte>> kept_ TALLY_GUARDED_BY(mutex_);
  std::size_t kept_bytes_ TALLY_GUARDED_BY(mutex_) = 0;
};

}  // namespace tally::server
