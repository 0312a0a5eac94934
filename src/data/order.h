#pragma once
#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::data {

enum class Strategy : std::uint8_t {
  kPartition,  // each sample once per epoch over all workers together
  kReplicate,  // all samples on every worker, in its own order
  kStream,     // file order; the workers take batches in turn
};

std::string_view to_string(Strategy strategy);

// The position in the data. It does not depend on the number of workers or the batch size, so both
// may change after a resume.
struct Position {
  std::uint64_t epoch = 0;
  // Finished samples of this epoch: of all workers together, or with kReplicate of each worker.
  std::uint64_t samples = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy takes the 0 of the comparison for a pointer.
  friend auto operator<=>(const Position&, const Position&) = default;
};

struct OrderOptions {
  Strategy strategy = Strategy::kPartition;
  std::uint64_t size = 0;   // number of samples in the dataset
  std::uint64_t seed = 1;   // equal on all workers
  std::uint64_t batch = 1;  // samples per worker and step, unless `step` is set
  // Samples of a step of all workers together, which divide them; 0: workers * batch. Workers that
  // continue without others keep the steps of all of them with it. Unused by kReplicate.
  std::uint64_t step = 0;
  // Samples of each worker in a step; empty: equal parts of it. Their sum is the step, in place of
  // `batch` and `step`. Unused by kReplicate.
  std::vector<std::uint64_t> parts = {};
  bool shuffle = true;  // unused by kStream
  Rank rank = 0;
  int workers = 1;
};

// The samples of this worker in each step. All workers make the same number of steps per epoch.
//
// kPartition: the order of an epoch is a permutation by seed and epoch, equal on all workers. A
// step takes the next workers * batch samples, or `step` of them, and worker r takes the r-th part.
// Without `step`, N workers with batch B therefore see in each step the same samples as one worker
// with batch N * B. Parts that do not divide evenly, such as those of the last step, differ by at
// most one sample and may be empty. With `parts`, worker r takes parts[r] samples, in the order of
// ranks, and about the same share of a shorter step. All workers may change to other parts at the
// same position: each sample still occurs once per epoch.
// kReplicate: the permutation depends on seed, epoch and rank, and each worker visits all of it.
// kStream: file order; worker r takes the r-th batch of each step. With `step` a batch is an equal
// part of it, rounded up. The last batch may be shorter, and the workers after it get an empty one.
//
// Threads: one at a time.
class Order final {
 public:
  // Requires batch > 0, workers > 0 and 0 <= rank < workers; of `parts`, none or one per worker and
  // a sum above 0.
  explicit Order(const OrderOptions& options);

  // Steps of a whole epoch; 0 only for an empty dataset.
  std::uint64_t steps_per_epoch() const;
  // The most samples that a batch of this worker has.
  std::uint64_t largest_batch() const;
  // Returns the indices of this worker's next batch and advances. The last step of an epoch
  // advances to the next epoch.
  std::vector<std::uint64_t> next();
  // True if the last next() was the last step of its epoch.
  bool at_epoch_end() const { return at_epoch_end_; }
  // The position after the last next(). At the end of an epoch this is the start of the next epoch.
  Position position() const { return position_; }
  // Continues from a position saved with any number of workers and any batch size. kInvalid if the
  // dataset has fewer samples than the position.
  Result<void> seek(const Position& position);
  // Samples of this worker in the steps from the position up to `end`; 0 if `end` is not after it.
  std::uint64_t samples_until(const Position& end) const;

  const OrderOptions& options() const { return options_; }

 private:
  OrderOptions options_;
  Position position_;
  bool at_epoch_end_ = false;
};

}  // namespace tally::data
