#pragma once
#include <optional>
#include <string>
#include <vector>

#include "data/shard_course.h"
#include "exchange/saved_model.h"

namespace tally::exchange {

// The state of a training that is equal on all ranks, beside its tensors.
struct SavedTraining {
  SavedCourse course;
  std::string schedule;        // RateSchedule::text(); for people, not read back
  std::string schedule_state;  // RateSchedule::state()
  std::optional<double> loss_scale;
  std::uint64_t good_updates = 0;  // with loss_scale: since the factor changed
  std::vector<data::SavedShard> shards;
};

// As Content::state of a checkpoint: a JSON object with the member "trainer".
std::string to_text(const SavedTraining& training, const TrainedModel& model);
// kMismatch if the optimizer is of another kind, kCorrupt if the text is not as to_text() writes it
// for this model.
Result<SavedTraining> parse_training(const std::string& text, const TrainedModel& model);

}  // namespace tally::exchange
