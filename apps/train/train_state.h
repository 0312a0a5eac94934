#pragma once
#include <string>
#include <string_view>

#include "apps/train/loop_control.h"
#include "data/order.h"
#include "tally/error.h"

namespace tally::app {

// What a checkpoint keeps of a training beside the trainer's own state: enough to go on with the
// same bits.
struct TrainState {
  std::string recipe;
  std::string data;
  std::uint64_t seed = 1;
  data::Position position;
  LoopControlState control;
};

// `trainer_state`, a JSON object as text, with this in it as well.
Result<std::string> with_train_state(std::string_view trainer_state, const TrainState& state);
// Back from such a text. kCorrupt with what is missing or of the wrong type.
Result<TrainState> train_state_of(std::string_view text);

}  // namespace tally::app
