#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tally::train {

// In which order buckets take their way over a lane.
struct LaneSchedule {
  // Else in the order of buckets. So: of those that are ready the one that the next forward pass
  // needs first, which is the last one, for buckets come in the order of backward. The lane's first
  // member decides and tells the others.
  bool by_priority = false;
  // With by_priority: at most so many bytes of buckets are on their way at once, but for a bucket
  // that alone has more. What is on its way cannot be overtaken.
  std::size_t bytes_in_flight = 0;
  std::vector<std::size_t> bytes = {};  // by bucket
};

// Where a bucket is.
enum class LaneStage : std::uint8_t { kIdle, kReady, kUnderWay, kThere };

// The bucket to send now. None: nothing is ready, or it has to wait until others are there.
std::optional<std::size_t> next_by_priority(const LaneSchedule& schedule,
                                            std::span<const LaneStage> stages);

}  // namespace tally::train
