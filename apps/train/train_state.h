#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "apps/tally/read_words.h"
#include "apps/train/loop_control.h"
#include "data/order.h"
#include "tally/error.h"

namespace tally::app {

// State of a training in a checkpoint, beside that of the trainer: enough to continue with the same
// bits.
struct TrainState {
  std::string recipe;
  std::string data;
  ReadWords read;
  std::uint64_t seed = 1;
  data::Position position;  // of all workers together
  // Of each worker that was left, in the order of ranks; one for all workers if they make their
  // steps together. Never empty in a state that was read.
  std::vector<data::Position> positions;
  LoopControlState control;
};

// Adds the state to `trainer_state`, a JSON object as text.
Result<std::string> with_train_state(std::string_view trainer_state, const TrainState& state);
// Reads the state from such a text. kCorrupt with the field that is missing or of the wrong type.
Result<TrainState> train_state_of(std::string_view text);

}  // namespace tally::app
