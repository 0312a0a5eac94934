#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tally/optimizer.h"

// The arithmetic of one optimizer step over flat memory. Functions of their arguments only:
// elements do not depend on each other, so a parameter may be cut anywhere and updated by many
// hands, with the same bits. Scalars are computed in double and rounded once to T, which is float
// or double. The spec must have passed check().
namespace tally::optimizer {

// Numbers kept per element: 0 (plain sgd), 1 (momentum, adagrad, lars) or 2 (adam, adamw, lamb,
// ftrl).
int state_arrays(const OptimizerSpec& spec);

// What they are called in checkpoints: "momentum"; "sum"; "exp_avg" and "exp_avg_sq"; "z" and "n".
std::vector<std::string> state_names(const OptimizerSpec& spec);

// What they are filled with before the first step.
double initial_state(const OptimizerSpec& spec);

// Whether the kind needs norms over the whole parameter: prepare() and finish() instead of
// update().
bool is_layerwise(const OptimizerSpec& spec);

// Some elements of one parameter with what belongs to them, all of the same length. Of `state` the
// first state_arrays() spans are used. Nothing overlaps.
template <typename T>
struct Segment {
  std::span<T> parameters;
  std::span<T> gradient;  // may be overwritten
  std::array<std::span<T>, 2> state;
};

struct StepFacts {
  std::uint64_t step = 1;  // of this parameter, from 1; with freeze_after of the whole model
  // Of this step; the one in the spec is not looked at, but by ftrl: there it is alpha, and what
  // this one is beside it multiplies the gradient. (All of z is divided by alpha, so another one
  // would move every parameter.)
  double rate = 0.1;
};

// What update() does to the state before step 1, whatever it holds: momentum becomes 0; ftrl's z
// such that beta pulls towards where the parameters are, not to 0 (the paper's begin there, where
// that is the same).
template <typename T>
void begin_state(const OptimizerSpec& spec, const Segment<T>& segment);

// One whole step of the kinds that are not layerwise.
template <typename T>
void update(const OptimizerSpec& spec, const StepFacts& facts, const Segment<T>& segment);

// The layerwise kinds: prepare() on all segments of a parameter, then the norms, then finish() on
// all segments. lamb updates its state in prepare() and leaves the direction in `gradient`.
template <typename T>
void prepare(const OptimizerSpec& spec, const StepFacts& facts, const Segment<T>& segment);

// Euclidean, over the whole parameter; `gradient` of what prepare() left there.
struct Norms {
  double parameters = 0;
  double gradient = 0;
};
template <typename T>
void finish(const OptimizerSpec& spec, const StepFacts& facts, const Norms& norms,
            const Segment<T>& segment);

// What the rate is multiplied with for a whole parameter: lars' local rate, lamb's trust ratio. 1
// where a norm is 0: new layers, and biases that begin at zero, must be able to move.
double trust_ratio(const OptimizerSpec& spec, const Norms& norms);

}  // namespace tally::optimizer
