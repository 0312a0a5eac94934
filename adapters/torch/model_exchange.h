#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adapters/torch/first_use.h"
#include "adapters/torch/tensors.h"
#include "policy/staleness.h"
#include "tally/checkpoint.h"
#include "train/codec_state.h"
#include "train/parameter_layout.h"
#include "train/sharded_update.h"
#include "train/slice.h"

namespace tally::adapter {

// What a rank brings to an update.
struct StepGift {
  train::StepContribution contribution;
  double loss_sum = 0;
  std::vector<double> rates;  // by group
};

// What came of it.
struct StepResult {
  double samples =
      0;  // behind the update as far as this rank knows: of all ranks, or its own; 0: none
  double loss_sum = 0;
  bool updated = false;
};

// What a checkpoint says of the course of a trainer.
struct SavedCourse {
  std::uint64_t steps = 0;
  std::vector<std::size_t> order;              // of parameters
  std::vector<std::uint64_t> parameter_steps;  // updates of each
  std::string
      snapshot;  // folder, of rows on servers that the checkpoint does not have; empty: none
};

// The trained parameters of a module, and the way in which ranks update them together: in a group,
// or on servers. It has hooks on the parameters' gradients while it lives. Throws Failure. Threads:
// one at a time.
//
//   begin -> (backward ...) -> announce -> backward -> complete        one update
class ModelExchange {
 public:
  virtual ~ModelExchange() = default;

  virtual const std::vector<train::ParameterInfo>& parameters() const = 0;

  // Before the first forward pass of an update: the parameters are those to compute at. False: this
  // rank is not to compute a gradient (subset:K).
  virtual bool begin() = 0;
  // The coming backward is the last of the update: what becomes complete may travel at once.
  // Without it gradients are only collected.
  virtual void announce(const StepGift& gift) = 0;
  // Whether others count on what was announced: there is no way back.
  virtual bool is_announced() const = 0;
  virtual StepResult complete(const StepGift& gift) = 0;
  // Gradients are gone: the next backward begins afresh.
  virtual void forget_gradients() = 0;
  // Parameters may get their new values after complete(): until all have them.
  virtual void settle() {}
  // While it lives, operations of this thread wait for the new values of what they use; null if
  // there is nothing to wait for.
  virtual std::unique_ptr<FirstUse> await_use() { return nullptr; }
  // Takes part with nothing, but for `first`, until all ranks do.
  virtual void drain(const StepGift& first) = 0;

  // Updates, as far as this rank knows; one by one gradients count 1/N.
  virtual std::uint64_t steps() const = 0;
  // Whether all ranks make their steps together.
  virtual bool in_step() const = 0;
  // The sums over all ranks that are there. Collective.
  virtual std::vector<double> sum(std::vector<double> values) = 0;
  // The same, between steps: afterwards steps() is that of the farthest everywhere, and the
  // parameters are the newest.
  virtual std::vector<double> meet(std::vector<double> values) = 0;
  // Whether this is the lowest rank of those who are there.
  virtual bool is_first() const = 0;
  // The first rank's tensors become everybody's. Collective.
  virtual void broadcast(const std::vector<NamedTensor>& tensors) = 0;

  virtual train::StepTimes times() const = 0;
  // How stale this rank's gradients were when they were applied; how many came too late.
  virtual const policy::Histogram& staleness() const = 0;
  virtual std::uint64_t dropped() const = 0;

  // What this rank gives to a checkpoint; in memory that stays until the next call. Collective.
  virtual std::vector<train::SliceState> states() = 0;
  // What codecs remember, in names of checkpoints; by parameter: all ranks' tensors, and what this
  // one has. Likewise.
  virtual std::vector<train::CodecTensor> codec_tensors() const { return {}; }
  virtual std::vector<train::CodecState> codec_states() { return {}; }
  // Who this rank is among those that send.
  virtual train::Sender sender() const { return {}; }
  virtual SavedCourse course() const = 0;
  // Updates that it has behind it once such a course is restored, as codecs count them.
  virtual std::uint64_t updates_of(const SavedCourse& course) const { return course.steps; }
  // Values, state and course of a checkpoint that fits. Collective.
  virtual void restore(const checkpoint::Reader& reader, const SavedCourse& course) = 0;
  // Of the optimizer, master copies included, that this rank has.
  virtual std::size_t state_bytes() = 0;
};

// What the arrays of optimizer state of a parameter are called in checkpoints, in the order of
// SliceState::state.
std::vector<std::string> state_names_of(const train::ParameterInfo& parameter,
                                        const OptimizerSpec& optimizer);

}  // namespace tally::adapter
