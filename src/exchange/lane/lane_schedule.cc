#include "exchange/lane/lane_schedule.h"

namespace tally::exchange {

std::optional<std::size_t> next_by_priority(const LaneSchedule& schedule,
                                            std::span<const LaneStage> stages) {
  std::optional<std::size_t> next;
  std::size_t in_flight = 0;
  for (std::size_t b = 0; b < stages.size(); ++b) {
    if (stages[b] == LaneStage::kReady) next = b;
    if (stages[b] == LaneStage::kUnderWay) in_flight += schedule.bytes[b];
  }
  const bool fits =
      next && (in_flight == 0 || in_flight + schedule.bytes[*next] <= schedule.bytes_in_flight);
  return fits ? next : std::nullopt;
}

}  // namespace tally::exchange
