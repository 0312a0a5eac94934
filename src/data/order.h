#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::data {

enum class Strategy : std::uint8_t {
  kPartition,  // each sample once per epoch over all workers
  kReplicate,  // every worker all data, in an order of its own
  kStream,     // as they lie in the file, batch by batch in turn
};

std::string_view to_string(Strategy strategy);
// "partition", "replicate" or "stream"; anything else is kInvalid.
Result<Strategy> parse_strategy(std::string_view text);

// How far the data have been used. It says nothing of the number of workers or of batches, so that
// both may change.
struct Position {
  std::uint64_t epoch = 0;
  // Samples of this epoch that are done: over all workers; with kReplicate, of each.
  std::uint64_t samples = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

struct OrderOptions {
  Strategy strategy = Strategy::kPartition;
  std::uint64_t size = 0;   // samples of the dataset
  std::uint64_t seed = 1;   // the same on all workers
  std::uint64_t batch = 1;  // samples per worker and step
  bool shuffle = true;      // unused by kStream
  Rank rank = 0;
  int workers = 1;
};

// Which samples this worker takes in which step. All workers make the same number of steps per
// epoch.
//
// kPartition: one epoch's order is a permutation by seed and epoch, the same on all workers. A step
// takes the next workers * batch of it and worker r the r-th part, so that N workers with batch B
// see in each step what one with N * B sees. In the last step the rest is shared out as evenly as
// can be: parts differ by at most one and may be empty. kReplicate: the permutation is by seed,
// epoch and rank, and each worker goes through all of it. kStream: file order; worker r takes every
// workers-th batch. The last one may be short, and later workers' empty.
//
// Threads: one at a time.
class Order final {
 public:
  // `batch` and `workers` are positive, `rank` is one of the workers.
  explicit Order(const OrderOptions& options);

  // From the beginning of an epoch; 0 only of an empty dataset.
  std::uint64_t steps_per_epoch() const;
  // Indices of this worker's next batch; moves on. After the last step of an epoch the next one
  // begins.
  std::vector<std::uint64_t> next();
  // Whether the last next() was the epoch's last step.
  bool at_epoch_end() const { return at_epoch_end_; }
  // After the last next(). At the end of an epoch: the beginning of the next.
  Position position() const { return position_; }
  // Goes on from a position that was saved with whatever number of workers and batch. kInvalid if
  // the dataset has fewer samples than that.
  Result<void> seek(const Position& position);

  const OrderOptions& options() const { return options_; }

 private:
  std::uint64_t samples_per_step() const;

  OrderOptions options_;
  Position position_;
  bool at_epoch_end_ = false;
};

}  // namespace tally::data
