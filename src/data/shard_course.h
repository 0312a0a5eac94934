#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/order.h"

namespace tally::data {

// The way of a shard through its data.
struct ShardCourse {
  explicit ShardCourse(const OrderOptions& options) : order(options) {}

  Order order;    // its position is after the batch that the loop has now
  Position done;  // after the last batch that an update has used
};

// A shard's entry in a checkpoint: the position, and the order that it refers to, of which size,
// seed and shuffle count.
struct SavedShard {
  Position done;
  OrderOptions order;
};

// "22 samples with seed 1"
std::string to_string(const OrderOptions& order);

// The shards of one training, in the order in which a program makes them. A restored position goes
// to the shard of the same number, whether it exists already or is made later. kMismatch if the
// position is inside an epoch of another order. Threads: calls must not overlap.
class ShardCourses final {
 public:
  Result<void> add(std::shared_ptr<ShardCourse> course);
  // An update has used the batches that the loops have taken so far.
  void count_batches();
  std::vector<SavedShard> positions() const;
  Result<void> restore(std::vector<SavedShard> saved);

 private:
  std::vector<std::shared_ptr<ShardCourse>> courses_;
  std::vector<SavedShard> saved_;  // of the restored checkpoint
};

}  // namespace tally::data
