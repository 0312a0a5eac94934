#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/recorder.h"

namespace tally::collective {

// The communicators of one rank that live, for those who watch it. Threads: safe. Operations never
// wait for it: only making and ending a communicator does.
class Registry {
 public:
  struct Entry {
    const Recorder* recorder = nullptr;
    // The job's rank of each rank.
    const std::vector<Rank>* members = nullptr;
    // Why the communicator is over, if it is.
    std::function<std::optional<Error>()> failure;
  };

  void add(std::uint32_t channel, const Entry& entry) {
    MutexLock lock(mutex_);
    entries_[channel] = entry;
  }
  void remove(std::uint32_t channel) {
    MutexLock lock(mutex_);
    entries_.erase(channel);
  }
  // In the order of their channels. What is borrowed is valid during the call.
  void for_each(const std::function<void(std::uint32_t channel, const Entry&)>& visit) const {
    MutexLock lock(mutex_);
    for (const auto& [channel, entry] : entries_) visit(channel, entry);
  }

 private:
  mutable Mutex mutex_;
  std::map<std::uint32_t, Entry> entries_ TALLY_GUARDED_BY(mutex_);
};

}  // namespace tally::collective
