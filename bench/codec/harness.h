#pragma once
#include <time.h>

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "bench/codec/measure.h"

namespace tally::bench::codecs {

// Returns the processor time of this thread, so that other processes of a busy machine do not
// count.
inline double own_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Returns the speed of `work` in GB/s of `bytes`.
template <typename Work>
double gb_per_s(std::size_t bytes, Work&& work) {
  const double start = own_seconds();
  std::forward<Work>(work)();
  return static_cast<double>(bytes) / 1e9 / (own_seconds() - start);
}

inline void add_sample(Measurement::Speed& speed, double gb, double copy_gb) {
  speed.gb_per_s.push_back(gb);
  speed.share.push_back(gb / copy_gb);
}

// Copies all runs in the same pieces as codecs get them. `out` is as large as the input.
inline double copy_gb_per_s(const Input& input, std::span<const Run> runs, std::span<float> out) {
  return gb_per_s(input.values.size() * sizeof(float), [&] {
    for (const Run& run : runs) {
      std::memcpy(&out[run.first], &input.values[run.first], run.count * sizeof(float));
      // Keeps the compiler from dropping unread writes.
      asm volatile("" : : "r"(out.data()) : "memory");
    }
  });
}

// Steps of a sender with the same values, to measure error feedback.
inline constexpr int kFeedbackSteps = 20;

// The low-rank codec works on whole matrices: encode is the first two products, decode the third.
Result<Measurement> measure_powersgd(const plan::CodecSpec& spec, const Input& input, int repeats);

}  // namespace tally::bench::codecs
