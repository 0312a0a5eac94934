#pragma once
#include <atomic>
#include <cstdint>

#include "collective/registry.h"

namespace tally::collective {

// What of a rank is there for those who watch it from another thread. Threads: safe.
struct Watchable {
  Registry registry;
  std::atomic<int> issuer{0};  // the thread that joined, or issued an operation last
  std::atomic<std::uint64_t> steps{0};
  std::atomic<std::uint64_t> samples{0};

  void count_step(std::uint64_t of_samples) {
    steps.fetch_add(1, std::memory_order_relaxed);
    samples.fetch_add(of_samples, std::memory_order_relaxed);
  }
};

}  // namespace tally::collective
