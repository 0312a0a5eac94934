#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adapters/torch/first_use.h"
#include "adapters/torch/tensors.h"
#include "exchange/group/group_update.h"
#include "exchange/group/slice.h"
#include "exchange/lane/codec_state.h"
#include "exchange/memory/parameter_layout.h"
#include "policy/staleness.h"
#include "tally/checkpoint.h"

namespace tally::adapter {

// The contribution of a rank to an update.
struct StepGift {
  exchange::StepContribution contribution;
  double loss_sum = 0;
  std::vector<double> rates;  // by group
};

// The outcome of an update.
struct StepResult {
  double samples =
      0;  // behind the update, as far as this rank knows: of all ranks, or its own; 0: no update
  double loss_sum = 0;
  bool updated = false;
};

// The progress of a trainer in a checkpoint.
struct SavedCourse {
  std::uint64_t steps = 0;
  std::vector<std::size_t> order;              // of parameters
  std::vector<std::uint64_t> parameter_steps;  // by parameter: its updates
  std::string
      snapshot;  // folder with the rows on servers, which the checkpoint does not have; empty: none
};

// The trained parameters of a module, and the way in which ranks update them: in a group, or on
// servers. The object keeps hooks on the parameters' gradients. Throws Failure. Threads: calls must
// not overlap.
//
//   begin -> (backward ...) -> announce -> backward -> complete        one update
class ModelExchange {
 public:
  virtual ~ModelExchange() = default;

  virtual const std::vector<exchange::ParameterInfo>& parameters() const = 0;

  // Call before the first forward pass of an update: the parameters have the values to compute at.
  // False: this rank must not compute a gradient (subset:K).
  virtual bool begin() = 0;
  // The coming backward is the last of the update: complete gradients may be sent at once. Without
  // announce() gradients are only collected.
  virtual void announce(const StepGift& gift) = 0;
  // Whether other ranks rely on the announced gradients: the step must then be completed.
  virtual bool is_announced() const = 0;
  virtual StepResult complete(const StepGift& gift) = 0;
  // Clears the gradients; the next backward starts with none.
  virtual void forget_gradients() = 0;
  // Parameters may get their new values after complete(): waits for all of them.
  virtual void settle() {}
  // While the object lives, operations of this thread wait for the new values that they use; null
  // if all values have arrived.
  virtual std::unique_ptr<FirstUse> await_use() { return nullptr; }
  // Takes part without gradients, except for `first`, until all ranks have called drain().
  virtual void drain(const StepGift& first) = 0;

  // Updates that this rank knows of; without rounds each gradient counts 1/N.
  virtual std::uint64_t steps() const = 0;
  // Whether all ranks make their steps together.
  virtual bool in_step() const = 0;
  // The sums over all ranks that are still in the job. Collective.
  virtual std::vector<double> sum(std::vector<double> values) = 0;
  // The same, between steps. Afterwards steps() is the maximum of all ranks and the parameters are
  // the newest.
  virtual std::vector<double> meet(std::vector<double> values) = 0;
  // Whether this rank comes to the meeting of `step` now, as Trainer::is_due().
  virtual bool is_due(std::uint64_t step) { return steps() >= step; }
  // Whether this is the lowest rank that is still in the job.
  virtual bool is_first() const = 0;
  // Copies the tensors of the first rank to all ranks. Collective.
  virtual void broadcast(const std::vector<NamedTensor>& tensors) = 0;

  virtual exchange::UpdateTimes times() const = 0;
  // The staleness of this rank's applied gradients, and the number of dropped ones.
  virtual const policy::Histogram& staleness() const = 0;
  virtual std::uint64_t dropped() const = 0;

  // This rank's part of a checkpoint, in memory that is valid until the next call. Collective.
  virtual std::vector<exchange::SliceState> states() = 0;
  // The codec state in checkpoints: the tensors of all ranks, and this rank's part of them.
  // Otherwise as states().
  virtual std::vector<exchange::CodecTensor> codec_tensors() const { return {}; }
  virtual std::vector<exchange::CodecState> codec_states() { return {}; }
  // The number of this rank among the senders.
  virtual exchange::Sender sender() const { return {}; }
  virtual SavedCourse course() const = 0;
  // The number of updates, as codecs count them, after a restore of `course`.
  virtual std::uint64_t updates_of(const SavedCourse& course) const { return course.steps; }
  // Restores values, state and progress from a checkpoint that fits. Collective.
  virtual void restore(const checkpoint::Reader& reader, const SavedCourse& course) = 0;
  // Optimizer state of this rank, master copies included.
  virtual std::size_t state_bytes() = 0;
};

// The names of a parameter's optimizer state arrays in checkpoints, in the order of
// SliceState::state.
std::vector<std::string> state_names_of(const exchange::ParameterInfo& parameter,
                                        const OptimizerSpec& optimizer);

}  // namespace tally::adapter
