#pragma once
#include <cstdint>

#include "data/order.h"

namespace tally::adapter {

// The way of a shard through its data, shared with the trainer that saves it.
struct ShardCourse {
  explicit ShardCourse(const data::OrderOptions& options) : order(options) {}

  data::Order order;    // its position is after the batch that the loop has now
  data::Position done;  // after the last batch that an update has used
};

// A shard's entry in a checkpoint: the position, and the order that it refers to.
struct SavedShard {
  data::Position done;
  std::uint64_t size = 0;
  std::uint64_t seed = 0;
  bool shuffle = true;
};

}  // namespace tally::adapter
