#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tally/optimizer.h"

// The arithmetic of one optimizer step over flat memory. All functions are pure. Elements do not
// depend on each other, so a parameter may be cut anywhere and updated by several threads or ranks,
// with the same bits. Scalars are computed in double and rounded once to T, which is float or
// double. The spec must have passed check().
namespace tally::optimizer {

// State values per element: 0 (plain sgd), 1 (momentum, adagrad, lars) or 2 (adam, adamw, lamb,
// ftrl).
int state_arrays(const OptimizerSpec& spec);

// Their names in checkpoints: "momentum"; "sum"; "exp_avg" and "exp_avg_sq"; "z" and "n".
std::vector<std::string> state_names(const OptimizerSpec& spec);

// Their value before the first step.
double initial_state(const OptimizerSpec& spec);

// How N gradients that are applied one by one share the learning rate of one update with their
// mean: each gets the power `share_power` of 1/N. The mean of N gradients has a variance of 1/N of
// theirs. An optimizer that divides by the root of a mean square (adam) so makes steps that are up
// to sqrt(N) shorter with single gradients, and one that divides by the root of a growing sum of
// squares (adagrad, ftrl) makes steps that are N times shorter by itself.
double share_power(const OptimizerSpec& spec);

// Whether the kind needs norms over the whole parameter: prepare() and finish() instead of
// update().
bool is_layerwise(const OptimizerSpec& spec);

// Some elements of one parameter with their gradient and state, all of the same length. The first
// state_arrays() spans of `state` are used. Nothing overlaps.
template <typename T>
struct Segment {
  std::span<T> parameters;
  std::span<T> gradient;  // may be overwritten
  std::array<std::span<T>, 2> state;
};

struct StepFacts {
  std::uint64_t step = 1;  // of this parameter, from 1; with freeze_after of the whole model
  // The learning rate of this step. Only ftrl also reads the spec's rate: there it is alpha, and
  // the gradient is multiplied by rate / alpha. (All of z is divided by alpha, so a changed alpha
  // would move every parameter.)
  double rate = 0.1;
};

// Overwrites the state before step 1, as update() does: momentum becomes 0, and ftrl's z becomes
// such that beta pulls towards the initial parameters. (In the paper these are 0.)
template <typename T>
void begin_state(const OptimizerSpec& spec, const Segment<T>& segment);

// One step of the kinds that are not layerwise.
template <typename T>
void update(const OptimizerSpec& spec, const StepFacts& facts, const Segment<T>& segment);

// The layerwise kinds: prepare() on all segments of a parameter, then the norms, then finish() on
// all segments. lamb updates its state in prepare() and leaves the direction in `gradient`.
template <typename T>
void prepare(const OptimizerSpec& spec, const StepFacts& facts, const Segment<T>& segment);

// Euclidean norms over the whole parameter; `gradient` is the norm of the values that prepare()
// left.
struct Norms {
  double parameters = 0;
  double gradient = 0;
};
template <typename T>
void finish(const OptimizerSpec& spec, const StepFacts& facts, const Norms& norms,
            const Segment<T>& segment);

// The factor of the learning rate for a whole parameter: lars' local rate, lamb's trust ratio. It
// is 1 where the spec does not adapt, and where a norm is 0, so that new layers can move.
double trust_ratio(const OptimizerSpec& spec, const Norms& norms);

}  // namespace tally::optimizer
