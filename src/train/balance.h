#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tally/deadline.h"

// Parts of a step in proportion to the speeds of the workers, so that none waits for slower ones.
namespace tally::train {

// The speed at which a worker computes: an exponential mean over its steps. The first steps do not
// count, because they also allocate memory and choose kernels. A value.
class ComputeSpeed final {
 public:
  // Adds a step; `compute` is the time of forward and backward, without waiting for other workers.
  void add(std::uint64_t samples, Duration compute);
  // Samples per second; 0 as long as no step counts.
  double value() const;

 private:
  std::uint64_t steps_ = 0;
  double samples_ = 0;
  double seconds_ = 0;
};

// Whether the workers compare their speeds after this many steps: after 10, and then after every
// 50.
bool balances_after(std::uint64_t steps);

// Divides `total` samples among workers in proportion to their speeds, with at least one sample for
// each: a pure function, so that workers with the same numbers agree. A worker without a speed (0)
// counts with the mean of the others. Requires total >= speeds.size() > 0.
std::vector<std::uint64_t> balanced_parts(std::uint64_t total, std::span<const double> speeds);

// Whether a worker's part in `next` differs from that in `now` by more than a twentieth and more
// than one sample. Smaller changes are left out: the loader would read its batches anew for them.
bool is_worth_changing(std::span<const std::uint64_t> now, std::span<const std::uint64_t> next);

}  // namespace tally::train
