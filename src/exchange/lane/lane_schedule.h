#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tally::exchange {

// The order in which buckets travel over a lane.
struct LaneSchedule {
  // False: in the order of buckets. True: of the ready buckets, the one that the next forward pass
  // needs first. That is the last one, because buckets are in the order of the backward pass. The
  // lane's first member decides and tells the others.
  bool by_priority = false;
  // With by_priority: the limit of bytes in flight; a single larger bucket may exceed it. A bucket
  // in flight cannot be overtaken.
  std::size_t bytes_in_flight = 0;
  std::vector<std::size_t> bytes = {};  // by bucket
};

// The state of a bucket in a step; kThere: it has arrived.
enum class LaneStage : std::uint8_t { kIdle, kReady, kUnderWay, kThere };

// The bucket to send now. nullopt: no bucket is ready, or it must wait for buckets in flight.
std::optional<std::size_t> next_by_priority(const LaneSchedule& schedule,
                                            std::span<const LaneStage> stages);

}  // namespace tally::exchange
