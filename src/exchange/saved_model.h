#pragma once
#include <vector>

#include "exchange/exchange.h"
#include "plan/codec_spec.h"
#include "tally/checkpoint.h"

namespace tally::exchange {

// A model as its exchange trains it.
struct TrainedModel {
  std::vector<ParameterInfo> parameters;
  std::vector<OptimizerSpec> optimizers;  // by group
  plan::CodecSpec codec;
};

// Adds this rank's part of the values, the optimizer state and the codec state to a checkpoint. The
// first tensors of the checkpoint are the parameters. Collective.
Result<void> add_states(const TrainedModel& model, CheckpointState& exchange,
                        checkpoint::Content& content);

// kMismatch, with the first difference, if the checkpoint has other tensors than `tensors`, or the
// state of another optimizer.
Result<void> check_fits(const TrainedModel& model,
                        const std::vector<checkpoint::TensorInfo>& tensors,
                        const checkpoint::Reader& reader);

// Restores the exchange from a checkpoint that fits. kMismatch if the checkpoint has no state of
// onebit-adam, and the warm-up, which counts all updates, would already be over: the senders would
// have no momentum to continue from.
Result<void> restore_states(const TrainedModel& model, CheckpointState& exchange,
                            const checkpoint::Reader& reader, const SavedCourse& course);

}  // namespace tally::exchange
