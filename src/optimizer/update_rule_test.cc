#include "optimizer/update_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "kernel/array/norm.h"

namespace tally::optimizer {
namespace {

// One parameter with its gradient and optimizer state.
template <typename T>
struct Parameter {
  std::vector<T> values, gradient;
  std::array<std::vector<T>, 2> state;

  Parameter(const OptimizerSpec& spec, std::vector<T> start) : values(std::move(start)) {
    for (auto& array : state) array.assign(values.size(), static_cast<T>(initial_state(spec)));
  }
  Segment<T> part(std::size_t begin, std::size_t end) {
    const auto span = [&](std::vector<T>& from) {
      return std::span<T>(from).subspan(begin, end - begin);
    };
    return {span(values), span(gradient), {span(state[0]), span(state[1])}};
  }
};

// Takes one step, in parts between `cuts`.
template <typename T>
void take_step(const OptimizerSpec& spec, const StepFacts& facts, Parameter<T>& p,
               const std::vector<std::size_t>& cuts) {
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    const Segment<T> part = p.part(cuts[c], cuts[c + 1]);
    is_layerwise(spec) ? prepare(spec, facts, part) : update(spec, facts, part);
  }
  if (!is_layerwise(spec)) return;
  const Norms norms{.parameters = std::sqrt(kernel::square_sum(std::span<const T>(p.values))),
                    .gradient = std::sqrt(kernel::square_sum(std::span<const T>(p.gradient)))};
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    finish(spec, facts, norms, p.part(cuts[c], cuts[c + 1]));
  }
}

using Vector = std::vector<double>;

double norm(const Vector& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// The update rules in double, from the complete history of gradients: every running average is
// computed as an explicit weighted sum.
class History {
 public:
  History(const OptimizerSpec& spec, Vector start) : spec_(spec), values_(std::move(start)) {}

  const Vector& step(double rate, Vector gradient) {
    if (spec_.kind == OptimizerKind::kFtrl) return ftrl_step(rate, std::move(gradient));
    const bool coupled = spec_.kind == OptimizerKind::kSgd ||
                         spec_.kind == OptimizerKind::kAdagrad ||
                         spec_.kind == OptimizerKind::kAdam;
    for (std::size_t i = 0; coupled && i < gradient.size(); ++i) {
      gradient[i] += spec_.weight_decay * values_[i];
    }
    if (spec_.kind == OptimizerKind::kLars) gradient = lars_term(rate, gradient);
    gradients_.push_back(gradient);
    const Vector direction = this->direction();
    const bool lamb = spec_.kind == OptimizerKind::kLamb;
    const double ratio = lamb ? lamb_ratio(direction) : 1;
    const auto before = static_cast<double>(gradients_.size() - 1);
    if (spec_.kind == OptimizerKind::kAdagrad) rate /= 1 + before * spec_.rate_decay;
    if (spec_.kind == OptimizerKind::kLars) rate = 1;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const bool shrinks = spec_.kind == OptimizerKind::kAdamW;
      const double shrunk = shrinks ? values_[i] * (1 - rate * spec_.weight_decay) : values_[i];
      values_[i] = shrunk - rate * ratio * direction[i];
    }
    return values_;
  }

 private:
  // sum over steps j of factor^(last-j) * f(gradient of step j, j).
  template <typename F>
  double sum(double factor, F f) const {
    double total = 0;
    const std::size_t last = gradients_.size() - 1;
    for (std::size_t j = 0; j <= last; ++j) {
      total += std::pow(factor, static_cast<double>(last - j)) * f(gradients_[j], j);
    }
    return total;
  }

  // FTRL-Proximal by its definition: the w that minimizes the sum of
  //   gradient_s * w + sigma_s / 2 * (w - w_s)^2 over all steps s,
  //   beta / alpha / 2 * (w - w_1)^2, l2 / 2 * w^2 and l1 * |w|,
  // where the sigmas of the first s steps add up to the root of the sum of squares over alpha.
  const Vector& ftrl_step(double rate, Vector gradient) {
    for (double& g : gradient) g *= rate / spec_.rate;
    gradients_.push_back(gradient);
    past_.push_back(values_);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      double curvature = spec_.beta / spec_.rate + spec_.l2;
      double slope = -spec_.beta / spec_.rate * past_[0][i];
      double squares = 0;
      for (std::size_t s = 0; s < past_.size(); ++s) {
        const double before = std::sqrt(squares);
        squares += gradients_[s][i] * gradients_[s][i];
        const double sigma = (std::sqrt(squares) - before) / spec_.rate;
        curvature += sigma;
        slope += gradients_[s][i] - sigma * past_[s][i];
      }
      // The derivative changes its sign at the minimum.
      const double left = (-slope + spec_.l1) / curvature;
      const double right = (-slope - spec_.l1) / curvature;
      values_[i] = right > 0 ? right : left < 0 ? left : 0;
    }
    return values_;
  }

  Vector lars_term(double rate, const Vector& gradient) const {
    const double weights = norm(values_);
    const double slope = norm(gradient);
    const double local =
        spec_.trust * weights / (slope + spec_.weight_decay * weights + spec_.epsilon);
    Vector term;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      term.push_back(rate * local * (gradient[i] + spec_.weight_decay * values_[i]));
    }
    return term;
  }

  double lamb_ratio(const Vector& direction) const {
    const double ratio = norm(values_) / norm(direction);
    return std::max(spec_.ratio_min, std::min(spec_.ratio_max, ratio));
  }

  Vector direction() const {
    Vector result;
    for (std::size_t i = 0; i < values_.size(); ++i) result.push_back(direction(i));
    return result;
  }

  double direction(std::size_t i) const {
    const double now = gradients_.back()[i];
    const auto plain = [i](const Vector& g, std::size_t) { return g[i]; };
    const auto square = [i](const Vector& g, std::size_t) { return g[i] * g[i]; };
    const auto damped = [i, this](const Vector& g, std::size_t j) {
      return (j == 0 ? 1 : 1 - spec_.dampening) * g[i];
    };
    const auto steps = static_cast<double>(gradients_.size());
    switch (spec_.kind) {
      case OptimizerKind::kSgd: {
        if (spec_.momentum == 0) return now;
        const double momentum = sum(spec_.momentum, damped);
        return spec_.nesterov ? now + spec_.momentum * momentum : momentum;
      }
      case OptimizerKind::kLars:
        return sum(spec_.momentum, plain);
      case OptimizerKind::kAdagrad:
        return now / (std::sqrt(spec_.initial_accumulator + sum(1, square)) + spec_.epsilon);
      case OptimizerKind::kAdam:
      case OptimizerKind::kAdamW:
      case OptimizerKind::kLamb:
      case OptimizerKind::kFtrl:  // see ftrl_step()
        break;
    }
    const double first =
        (1 - spec_.beta1) * sum(spec_.beta1, plain) / (1 - std::pow(spec_.beta1, steps));
    const double second =
        (1 - spec_.beta2) * sum(spec_.beta2, square) / (1 - std::pow(spec_.beta2, steps));
    const double ratio = first / (std::sqrt(second) + spec_.epsilon);
    return spec_.kind == OptimizerKind::kLamb ? ratio + spec_.weight_decay * values_[i] : ratio;
  }

  OptimizerSpec spec_;
  Vector values_;
  std::vector<Vector> gradients_;
  std::vector<Vector> past_;  // ftrl: the values before each step
};

std::vector<OptimizerSpec> all_specs() {
  return {
      sgd(),
      sgd({.weight_decay = 0.01}),
      sgd({.rate = 0.02, .momentum = 0.9}),
      sgd({.rate = 0.02, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01}),
      sgd({.rate = 0.02, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}),
      adagrad(),
      adagrad({.rate = 0.1, .rate_decay = 0.1, .weight_decay = 0.01, .initial_accumulator = 0.3}),
      adam(),
      adam({.rate = 0.01, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1}),
      adamw(),
      adamw({.rate = 0.01, .weight_decay = 0.2}),
      ftrl(),
      ftrl({.rate = 0.05, .beta = 2, .l1 = 0.7, .l2 = 0.3}),
      ftrl({.rate = 0.3, .beta = 0}),
      lamb(),
      lamb({.rate = 0.01, .weight_decay = 0, .ratio_max = 0.5}),
      lars(),
      lars({.rate = 3, .momentum = 0.8, .weight_decay = 0.01, .trust = 0.02})};
}

constexpr std::size_t kCount = 67;

template <typename T>
std::vector<T> random_values(Rng& rng) {
  std::vector<T> values;
  for (std::size_t i = 0; i < kCount; ++i) values.push_back(static_cast<T>(2 * rng.uniform() - 1));
  return values;
}

template <typename T>
class UpdateRule : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(UpdateRule, Types);

TYPED_TEST(UpdateRule, FollowsThePlainDoubleReferenceOverFiftySteps) {
  using T = TypeParam;
  const double tolerance = std::is_same_v<T, float> ? 1e-6 : 1e-13;
  for (const OptimizerSpec& spec : all_specs()) {
    Rng rng(13);
    Parameter<T> p(spec, random_values<T>(rng));
    History history(spec, Vector(p.values.begin(), p.values.end()));
    for (std::uint64_t step = 1; step <= 50; ++step) {
      p.gradient = random_values<T>(rng);
      const double rate = spec.rate / (1 + 0.01 * static_cast<double>(step));
      const Vector& expected = history.step(rate, Vector(p.gradient.begin(), p.gradient.end()));
      take_step(spec, {.step = step, .rate = rate}, p, {0, kCount});
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_NEAR(p.values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
            << to_string(spec) << " step " << step << " element " << i;
      }
    }
  }
}

TYPED_TEST(UpdateRule, CutIntoSegmentsItGivesTheSameBits) {
  using T = TypeParam;
  for (const OptimizerSpec& spec : all_specs()) {
    Rng rng(14);
    const std::vector<T> start = random_values<T>(rng);
    Parameter<T> whole(spec, start), parts(spec, start);
    for (std::uint64_t step = 1; step <= 5; ++step) {
      whole.gradient = parts.gradient = random_values<T>(rng);
      take_step(spec, {.step = step, .rate = spec.rate}, whole, {0, kCount});
      take_step(spec, {.step = step, .rate = spec.rate}, parts, {0, 0, 1, 22, 35, 36, kCount});
      EXPECT_EQ(std::memcmp(whole.values.data(), parts.values.data(), kCount * sizeof(T)), 0)
          << to_string(spec) << " step " << step;
    }
    EXPECT_EQ(whole.state, parts.state);
  }
}

// First steps from parameter 2 with gradient 0.5, computed by hand.
TYPED_TEST(UpdateRule, TheFirstStepHasItsClosedForm) {
  using T = TypeParam;
  struct Case {
    OptimizerSpec spec;
    double after;
  };
  const Case cases[] = {
      {sgd({.rate = 0.1}), 2 - 0.1 * 0.5},
      {sgd({.rate = 0.1, .weight_decay = 0.5}), 2 - 0.1 * (0.5 + 0.5 * 2)},
      // Dampening does not apply to the first gradient.
      {sgd({.rate = 0.1, .momentum = 0.9, .dampening = 0.5}), 2 - 0.1 * 0.5},
      {sgd({.rate = 0.1, .momentum = 0.9, .nesterov = true}), 2 - 0.1 * (0.5 + 0.9 * 0.5)},
      {adagrad({.rate = 0.1}), 2 - 0.1},
      {adagrad({.rate = 0.1, .initial_accumulator = 0.75}), 2 - 0.1 * 0.5 / 1},
      // The first step of Adam is as long as the learning rate for every gradient.
      {adam({.rate = 0.1}), 2 - 0.1},
      {adamw({.rate = 0.1, .weight_decay = 0.5}), 2 * (1 - 0.05) - 0.1},
      // z = -2 / 0.1 + 0.5 - 0.5 / 0.1 * 2, over (1 + 0.5) / 0.1.
      {ftrl({.rate = 0.1}), 29.5 / 15},
      {ftrl({.rate = 0.1, .l1 = 4.5}), 25.0 / 15},
      {ftrl({.rate = 0.1, .l1 = 29.5}), 0},
      {ftrl({.rate = 0.1, .l2 = 5}), 29.5 / 20},
      // The trust ratio makes lamb's step as long as the learning rate times the parameter norm.
      {lamb({.rate = 0.1, .weight_decay = 0}), 2 - 0.1 * 2},
      {lamb({.rate = 0.1, .weight_decay = 0, .ratio_max = 0.5}), 2 - 0.1 * 0.5},
      {lars({.rate = 1, .trust = 0.1, .epsilon = 0}), 2 - 0.1 * 2},
      {lars({.rate = 1, .weight_decay = 0.25, .trust = 0.1, .epsilon = 0}), 2 - 0.1 * 2},
      // Without the ratio lars is momentum, and lamb is adamw.
      {*parse_optimizer("lars:rate=0.1,adapt=off"), 2 - 0.1 * 0.5},
      {*parse_optimizer("lamb:rate=0.1,decay=0,adapt=off"), 2 - 0.1},
  };
  for (const Case& c : cases) {
    Parameter<T> p(c.spec, {T(2)});
    p.gradient = {T(0.5)};
    take_step(c.spec, {.step = 1, .rate = c.spec.rate}, p, {0, 1});
    // lamb's epsilon shortens the direction, and the trust ratio corrects this only in part.
    EXPECT_NEAR(p.values[0], c.after, 1e-6) << to_string(c.spec);
  }
}

TYPED_TEST(UpdateRule, TheFirstStepForgetsWhatTheMomentumHeld) {
  using T = TypeParam;
  const OptimizerSpec spec = sgd({.momentum = 0.9});
  Parameter<T> p(spec, {T(2)});
  p.state[0] = {std::numeric_limits<T>::quiet_NaN()};
  p.gradient = {T(0.5)};
  take_step(spec, {.step = 1, .rate = 0.5}, p, {0, 1});
  EXPECT_EQ(p.values[0], T(1.75));
  EXPECT_EQ(p.state[0][0], T(0.5));
}

// After two updates the second moment is frozen, and the rule receives the momentum in place of the
// gradient.
TYPED_TEST(UpdateRule, FrozenAdamTakesMomentumAndKeepsItsSecondMoment) {
  using T = TypeParam;
  for (OptimizerSpec spec : {adam({.rate = 0.1, .beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.25}),
                             adamw({.rate = 0.1, .beta1 = 0.8, .beta2 = 0.9})}) {
    const bool coupled = spec.kind == OptimizerKind::kAdam;
    const OptimizerSpec plain = spec;
    spec.freeze_after = 2;
    Parameter<T> p(spec, {T(2)}), unfrozen(plain, {T(2)});
    for (std::uint64_t step = 1; step <= 2; ++step) {
      p.gradient = unfrozen.gradient = {T(0.5) * static_cast<T>(step)};
      take_step(spec, {.step = step, .rate = 0.1}, p, {0, 1});
      take_step(plain, {.step = step, .rate = 0.1}, unfrozen, {0, 1});
    }
    EXPECT_EQ(p.values, unfrozen.values);
    EXPECT_EQ(p.state, unfrozen.state);
    const T second = p.state[1][0];
    for (std::uint64_t step = 3; step <= 5; ++step) {
      const double before = p.values[0];
      const double momentum = 0.25 * static_cast<double>(step) + (coupled ? 0.25 * before : 0);
      const double shrunk = coupled ? before : before * (1 - 0.1 * 0.01);
      const double root = std::sqrt(static_cast<double>(second) / (1 - 0.9 * 0.9));
      p.gradient = {static_cast<T>(0.25 * static_cast<double>(step))};
      take_step(spec, {.step = step, .rate = 0.1}, p, {0, 1});
      EXPECT_NEAR(p.values[0], shrunk - std::min(0.1, 0.1 * momentum / (root + 1e-8)), 1e-6);
      EXPECT_NEAR(p.state[0][0], momentum, 1e-6);
      EXPECT_EQ(p.state[1][0], second);
    }
  }
}

// An element without any gradient before the freeze does not move, even if a codec decodes noise
// for it.
TYPED_TEST(UpdateRule, FrozenAdamLeavesWhatNeverHadAGradient) {
  using T = TypeParam;
  OptimizerSpec spec = adam({.rate = 0.1});
  spec.freeze_after = 1;
  Parameter<T> p(spec, {T(2)});
  for (const T gradient : {T(0), T(1e-3), T(-1e-3)}) {
    p.gradient = {gradient};
    const std::uint64_t step = gradient == T(0) ? 1 : 2;
    take_step(spec, {.step = step, .rate = 0.1}, p, {0, 1});
    EXPECT_EQ(p.values[0], T(2));
  }
}

TYPED_TEST(UpdateRule, NoStepOfAFrozenAdamIsLongerThanTheRate) {
  using T = TypeParam;
  OptimizerSpec spec = adam({.rate = 0.1});
  spec.freeze_after = 1;
  for (const T sign : {T(1), T(-1)}) {
    Parameter<T> p(spec, {T(2)});
    p.gradient = {T(1e-6)};
    take_step(spec, {.step = 1, .rate = 0.1}, p, {0, 1});
    const T before = p.values[0];
    p.gradient = {sign * T(1e-3)};
    take_step(spec, {.step = 2, .rate = 0.1}, p, {0, 1});
    EXPECT_NEAR(p.values[0], before - sign * T(0.1), 1e-6);
    p.gradient = {std::numeric_limits<T>::quiet_NaN()};
    take_step(spec, {.step = 3, .rate = 0.1}, p, {0, 1});
    EXPECT_TRUE(std::isnan(p.values[0]));
  }
}

TYPED_TEST(UpdateRule, AnotherRateScalesFtrlsGradientAndMovesNothingElse) {
  using T = TypeParam;
  const OptimizerSpec spec = ftrl({.rate = 0.1});
  Parameter<T> slow(spec, {T(2)}), half(spec, {T(2)}), still(spec, {T(2)});
  slow.gradient = {T(0.5)};
  half.gradient = {T(0.25)};
  still.gradient = {T(0.5)};
  take_step(spec, {.step = 1, .rate = 0.05}, slow, {0, 1});
  take_step(spec, {.step = 1, .rate = 0.1}, half, {0, 1});
  take_step(spec, {.step = 1, .rate = 0}, still, {0, 1});
  EXPECT_EQ(slow.values, half.values);
  EXPECT_NEAR(still.values[0], 2, 1e-6);
}

TEST(UpdateRuleFacts, StatesHaveTheirNumberNamesAndFirstValue) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(state_names(sgd()), Names());
  EXPECT_EQ(state_names(sgd({.momentum = 0.9})), Names{"momentum"});
  EXPECT_EQ(state_names(lars()), Names{"momentum"});
  EXPECT_EQ(state_names(adagrad()), Names{"sum"});
  EXPECT_EQ(state_names(ftrl()), (Names{"z", "n"}));
  EXPECT_EQ(state_names(lamb()), (Names{"exp_avg", "exp_avg_sq"}));
  for (const OptimizerSpec& spec : all_specs()) {
    EXPECT_EQ(state_names(spec).size(), static_cast<std::size_t>(state_arrays(spec)));
  }
  EXPECT_EQ(initial_state(adagrad({.initial_accumulator = 0.25})), 0.25);
  EXPECT_EQ(initial_state(adam()), 0);
  EXPECT_TRUE(is_layerwise(lamb()) && is_layerwise(lars()));
  EXPECT_FALSE(is_layerwise(adamw()) || is_layerwise(sgd()));
}

TEST(UpdateRuleFacts, TheTrustRatioIsOneWhereANormIsZero) {
  for (const OptimizerSpec& spec : {lamb(), lars()}) {
    EXPECT_EQ(trust_ratio(spec, {.parameters = 0, .gradient = 3}), 1);
    EXPECT_EQ(trust_ratio(spec, {.parameters = 3, .gradient = 0}), 1);
  }
  EXPECT_EQ(trust_ratio(lamb(), {.parameters = 3, .gradient = 2}), 1.5);
  EXPECT_EQ(trust_ratio(lamb(), {.parameters = 300, .gradient = 2}), 10);
  EXPECT_EQ(trust_ratio(lamb({.ratio_min = 0.5}), {.parameters = 1, .gradient = 20}), 0.5);
  const auto spec = lars({.weight_decay = 0.5, .trust = 0.25, .epsilon = 0});
  EXPECT_EQ(trust_ratio(spec, {.parameters = 2, .gradient = 1}), 0.25);
}

}  // namespace
}  // namespace tally::optimizer
