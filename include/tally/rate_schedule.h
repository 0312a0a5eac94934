#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally {

// The learning rate over time: the rate of step s is the optimizer's rate times factor(s).
// docs/optimizers.md has the formulas. Threads: as any value.
class RateSchedule {
 public:
  // A constant learning rate.
  RateSchedule() = default;

  // Parses one of these texts:
  //
  //   "constant"
  //   "step:every=30,factor=0.1"           multiply by `factor` every `every` steps
  //   "multistep:at=100;200,factor=0.1"    multiply by `factor` at each of these steps
  //   "cosine:min=0.01"                    half a cosine from 1 down to `min` at the end
  //   "linear:min=0"                       linear from 1 down to `min` at the end
  //   "onecycle:peak=0.3,start=25,end=1e4" from 1/start up to 1 after the fraction `peak` of all
  //                                        steps, then down to 1/(start * end)
  //   "plateau:factor=0.1,patience=10,threshold=1e-4,min=0"  multiply by `factor` after more than
  //                                        `patience` calls of observe() without improvement
  //
  // Each kind takes "warmup=N": a linear increase over the first N steps. Kinds with an end
  // (cosine, linear, onecycle) take "total=N", the number of steps; the default is total_steps.
  // Returns kInvalid for any other text; for an unknown word the message suggests the nearest known
  // one.
  static Result<RateSchedule> parse(std::string_view text, std::uint64_t total_steps);

  // Uses any function of the step. It must return equal values on all ranks.
  static RateSchedule custom(std::function<double(std::uint64_t)> factor);

  // The factor of a step, counted from 0.
  double factor(std::uint64_t step) const;

  // Reports the metric of an evaluation; lower is better. Only plateau uses it, and a value that is
  // not finite counts as no improvement. All ranks must report equal values.
  void observe(double metric);

  // The state that observe() changes, for a checkpoint; empty if the kind has none. restore()
  // returns kInvalid, with nothing changed, if `state` is not from a schedule of this kind.
  std::string state() const;
  Result<void> restore(std::string_view state);

  // The text that parse() accepted, in a fixed order and without defaults; "custom" for custom().
  std::string text() const;

 private:
  struct Rule;

  // Copies share the rule, which never changes; null: constant.
  std::shared_ptr<const Rule> rule_;
  // Plateau: the best metric, the number of observations without improvement since, and the current
  // factor.
  double best_ = std::numeric_limits<double>::infinity();
  std::uint64_t worse_count_ = 0;
  double level_ = 1;
};

}  // namespace tally
