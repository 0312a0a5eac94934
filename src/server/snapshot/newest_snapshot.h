#pragma once
#include <string>
#include <utility>

#include "base/mutex.h"

namespace tally::server {

// The snapshot that was written last, for whoever has lost something. Threads: safe.
class NewestSnapshot {
 public:
  void set(std::string path) {
    const MutexLock lock(mutex_);
    path_ = std::move(path);
  }
  std::string path() const {
    const MutexLock lock(mutex_);
    return path_;
  }

 private:
  mutable Mutex mutex_;
  std::string path_ TALLY_GUARDED_BY(mutex_);
};

}  // namespace tally::server
