#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally {

// How the learning rate changes while training: the rate of step s is the optimizer's rate times
// factor(s). A value; docs/optimizers.md has the formulas. Threads: as any value.
class RateSchedule {
 public:
  // Constant.
  RateSchedule() = default;

  // "constant"
  // "step:every=30,factor=0.1"           every so many steps times `factor`
  // "multistep:at=100;200,factor=0.1"    at these steps times `factor`
  // "cosine:min=0.01"                    half a cosine from 1 to `min` at the end
  // "linear:min=0"                       a straight line from 1 to `min` at the end
  // "onecycle:peak=0.3,start=25,end=1e4" from 1/start up to 1 after this share of the steps, then
  //                                      down to 1/(start * end)
  // "plateau:factor=0.1,patience=10,threshold=1e-4,min=0"  times `factor` when observe() has seen
  //                                      nothing better for more than `patience` times
  // Each with "warmup=N": a straight line up to the rate over the first N steps. What goes to the
  // end takes "total=N", the end's step, which is total_steps otherwise. kInvalid for anything
  // else; an unknown word is answered with the nearest known one.
  static Result<RateSchedule> parse(std::string_view text, std::uint64_t total_steps);

  // Any function of the step. It must give the same values on all ranks.
  static RateSchedule custom(std::function<double(std::uint64_t)> factor);

  // Of the step with this number, from 0.
  double factor(std::uint64_t step) const;

  // What an evaluation found, lower is better. Only plateau looks at it; what is not finite counts
  // as no better. All ranks must observe the same values.
  void observe(double metric);

  // What observe() has left behind, for a checkpoint; empty where nothing can be. restore() gives
  // kInvalid, and changes nothing, if `state` is not from a schedule of this kind.
  std::string state() const;
  Result<void> restore(std::string_view state);

  // What parse() was given, in order and without defaults; "custom" for a function.
  std::string text() const;

 private:
  struct Rule;

  // Shared by copies, which is safe as it never changes; none: constant.
  std::shared_ptr<const Rule> rule_;
  // Plateau: the best so far, how often nothing was better since, and the factor now.
  double best_ = std::numeric_limits<double>::infinity();
  std::uint64_t worse_count_ = 0;
  double level_ = 1;
};

}  // namespace tally
