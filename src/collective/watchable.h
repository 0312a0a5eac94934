#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/recorder.h"
#include "base/step_recorder.h"

namespace tally::collective {

// The live communicators of one rank, for the Reporter. Threads: safe. Operations never take its
// mutex; only making and closing a communicator does.
class Registry {
 public:
  struct Entry {
    const Recorder* recorder = nullptr;
    // The job's rank of each rank of the communicator.
    const std::vector<Rank>* members = nullptr;
    // The communicator's failure, if there is one.
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
  // Visits the entries in the order of their channels. Borrowed pointers are valid during the call.
  void for_each(const std::function<void(std::uint32_t channel, const Entry&)>& visit) const {
    MutexLock lock(mutex_);
    for (const auto& [channel, entry] : entries_) visit(channel, entry);
  }

 private:
  mutable Mutex mutex_;
  std::map<std::uint32_t, Entry> entries_ TALLY_GUARDED_BY(mutex_);
};

// The state of a rank that the Reporter reads from its own thread. Threads: safe.
struct Watchable {
  Registry registry;
  std::atomic<int> issuer{0};  // the thread that joined, or issued an operation last
  std::atomic<std::uint64_t> steps{0};
  std::atomic<std::uint64_t> samples{0};
  // Shared by the successive memberships of the rank.
  std::shared_ptr<StepRecorder> recorder = std::make_shared<StepRecorder>();

  void count_step(std::uint64_t of_samples) {
    steps.fetch_add(1, std::memory_order_relaxed);
    samples.fetch_add(of_samples, std::memory_order_relaxed);
  }
};

}  // namespace tally::collective
