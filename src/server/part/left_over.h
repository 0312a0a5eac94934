#pragma once
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace tally::server {

class Part;

// Parts with pushes that nobody could work off, since others had the part: the next settle() does.
// Threads: safe.
class LeftOver final {
 public:
  void add(Part& part) {
    const MutexLock lock(mutex_);
    parts_.push_back(&part);
  }
  std::vector<Part*> take() {
    const MutexLock lock(mutex_);
    return std::exchange(parts_, {});
  }

 private:
  Mutex mutex_;
  std::vector<Part*> parts_ TALLY_GUARDED_BY(mutex_);
};

}  // namespace tally::server
