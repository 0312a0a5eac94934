#include <algorithm>

#include "codec/encoder/encoder.h"
#include "codec/families.h"
#include "codec/sparse/sparse_test_support.h"

namespace tally::codec {
namespace {

struct DgcCase {
  double density = 0.001;
  std::uint64_t warmup = 0;
  double clip = 0;
  bool masks = true;
  plan::EntropyStage stage = plan::EntropyStage::kNone;
};

plan::CodecSpec dgc(const DgcCase& c) {
  return {.kind = plan::Codec::kDgc,
          .clip = c.clip,
          .density = c.density,
          .warmup = c.warmup,
          .masks = c.masks,
          .feedback = true,
          .stage = c.stage};
}

Floats sent_by(Encoder& encoder, const Codec& codec, const Floats& gradient, std::uint64_t step) {
  Bytes bytes(encoder.max_bytes());
  const std::size_t size = encoder.encode(gradient, {.step = step}, bytes);
  return decoded(codec, std::span(bytes).first(size), gradient.size());
}

TEST(DgcEncoder, DensityFallsInFiveStages) {
  const plan::CodecSpec spec = dgc({.density = 0.001, .warmup = 200});
  const struct {
    std::uint64_t step;
    double density;
  } cases[] = {{0, 0.25},       {49, 0.25},   {50, 0.0625}, {99, 0.0625}, {100, 0.015625},
               {149, 0.015625}, {150, 0.004}, {199, 0.004}, {200, 0.001}, {1U << 30U, 0.001}};
  for (const auto& c : cases) EXPECT_EQ(dgc_density(spec, c.step), c.density) << c.step;
  // The warm-up never goes below the final density.
  const plan::CodecSpec dense = dgc({.density = 0.05, .warmup = 8});
  const double want[] = {0.25, 0.25, 0.0625, 0.0625, 0.05, 0.05, 0.05, 0.05, 0.05};
  for (std::uint64_t step = 0; step < 9; ++step) EXPECT_EQ(dgc_density(dense, step), want[step]);
  EXPECT_EQ(dgc_density(dgc({.density = 0.001}), 0), 0.001);
  EXPECT_EQ(dgc_density(dgc({.density = 0.001, .warmup = 2}), 1), 0.015625);
}

// f(x) = sum of curvature * (x - optimum)^2 / 2 over all elements. Each rank sees the gradient with
// noise of its own.
struct Quadratic {
  explicit Quadratic(std::size_t count) : optimum(normal_values(count, rng)), curvature(count) {
    for (float& c : curvature) c = static_cast<float>(0.05 + rng.uniform());
  }
  Floats gradient(const Floats& x, double noise) {
    Floats g = normal_values(x.size(), rng);
    for (std::size_t i = 0; i < x.size(); ++i)
      g[i] = curvature[i] * (x[i] - optimum[i]) + static_cast<float>(noise) * g[i];
    return g;
  }
  double distance(const Floats& x) const {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      sum += std::pow(static_cast<double>(x[i] - optimum[i]), 2);
    return std::sqrt(sum / static_cast<double>(x.size()));
  }
  Rng rng{11};
  Floats optimum, curvature;
};

constexpr float kRate = 0.1F;

// Trains 60 steps with `ranks` dgc senders and an optimizer without momentum, and with a plain
// optimizer of momentum `reference`. Returns the largest difference of the parameters after any
// step.
double largest_difference(const DgcCase& c, const SenderFacts& facts, double reference) {
  constexpr std::size_t kCount = 400;
  const auto ranks = static_cast<std::size_t>(facts.ranks);
  const plan::CodecSpec spec = dgc(c);
  const auto codec = make_topk(c.density, /*exact=*/false);
  std::vector<std::unique_ptr<Encoder>> senders;
  for (std::size_t r = 0; r < ranks; ++r)
    senders.push_back(Encoder::make(spec, *codec, kCount, facts));
  Quadratic problem(kCount);
  Floats x(kCount), same(kCount), momentum(kCount);
  const auto m = static_cast<float>(reference);
  double largest = 0;
  for (std::uint64_t step = 0; step < 60; ++step) {
    Floats arrived(kCount), mean(kCount);
    for (std::size_t r = 0; r < ranks; ++r) {
      const Floats g = problem.gradient(same, 0.3);
      const Floats sent = sent_by(*senders[r], *codec, g, step);
      for (std::size_t i = 0; i < kCount; ++i) {
        arrived[i] += sent[i] / static_cast<float>(ranks);
        mean[i] += g[i] / static_cast<float>(ranks);
      }
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      momentum[i] = m * momentum[i] + mean[i];
      const float direction = facts.nesterov ? mean[i] + m * momentum[i] : momentum[i];
      x[i] -= kRate * arrived[i];
      same[i] -= kRate * direction;
      largest = std::max(largest, static_cast<double>(std::fabs(x[i] - same[i])));
    }
  }
  return largest;
}

TEST(DgcEncoder, DensityOneWithoutMasksIsMomentum) {
  const DgcCase all{.density = 1, .masks = false};
  EXPECT_EQ(largest_difference(all, {.momentum = 0.9}, 0.9), 0);
  EXPECT_LT(largest_difference(all, {.momentum = 0.9, .ranks = 3}, 0.9), 1e-5);
  EXPECT_LT(largest_difference(all, {.momentum = 0.9, .nesterov = true}, 0.9), 1e-5);
  // A reference without momentum differs clearly, so the comparison is sensitive to momentum.
  EXPECT_GT(largest_difference(all, {.momentum = 0.9}, 0.0), 0.1);
}

TEST(DgcEncoder, DensityOneWithMasksIsWithoutMomentum) {
  const DgcCase all{.density = 1};
  EXPECT_EQ(largest_difference(all, {.momentum = 0.9}, 0.0), 0);
  EXPECT_LT(largest_difference(all, {.momentum = 0.9, .ranks = 3}, 0.0), 1e-5);
}

// Recomputes the state after every step, element by element, from the rule and the values sent.
void expect_follows_the_rule(const DgcCase& c, const SenderFacts& facts) {
  constexpr std::size_t kCount = 2000;
  const plan::CodecSpec spec = dgc(c);
  auto codec = make_topk(c.density, /*exact=*/false);
  if (c.stage != plan::EntropyStage::kNone) codec = make_staged(std::move(codec), c.stage);
  const auto encoder = Encoder::make(spec, *codec, kCount, facts);
  ASSERT_EQ(encoder->states().size(), 2U);
  EXPECT_EQ(encoder->states()[0].name, "momentum");
  EXPECT_EQ(encoder->states()[1].name, "residual");
  Floats u(kCount), v(kCount);
  Rng rng(5);
  for (std::uint64_t step = 0; step < 30; ++step) {
    const Floats g = normal_values(kCount, rng);
    const Floats sent = sent_by(*encoder, *codec, g, step);
    double norm = 0;
    for (const float value : g) norm += static_cast<double>(value) * static_cast<double>(value);
    const double limit = c.clip / std::sqrt(facts.ranks);
    const float scale =
        c.clip > 0 ? static_cast<float>(std::min(1.0, limit / std::sqrt(norm))) : 1.0F;
    const auto m = static_cast<float>(facts.momentum);
    std::size_t entries = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const float clipped = scale * g[i];
      u[i] = facts.nesterov ? m * (u[i] + clipped) : m * u[i] + clipped;
      v[i] = facts.nesterov ? v[i] + (u[i] + clipped) : v[i] + u[i];
      if (sent[i] == 0) continue;
      ++entries;
      ASSERT_NEAR(sent[i], v[i], 1e-5);
      v[i] = 0;
      if (c.masks) u[i] = 0;
    }
    const double wanted = dgc_density(spec, step) * kCount;
    ASSERT_GE(static_cast<double>(entries), 0.8 * wanted - 1);
    ASSERT_LE(static_cast<double>(entries), 1.3 * wanted + 1);
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_NEAR(encoder->states()[0].values[i], u[i], 1e-5);
      ASSERT_NEAR(encoder->states()[1].values[i], v[i], 1e-5);
    }
  }
}

TEST(DgcEncoder, MemoryFollowsTheRule) {
  expect_follows_the_rule({.density = 0.02}, {.momentum = 0.9});
  expect_follows_the_rule({.density = 0.02, .warmup = 16}, {.momentum = 0.9, .nesterov = true});
  expect_follows_the_rule({.density = 0.02, .masks = false}, {.momentum = 0.5});
  expect_follows_the_rule({.density = 0.02, .clip = 2}, {.momentum = 0.9, .ranks = 4});
  expect_follows_the_rule({.density = 0.02, .clip = 1e6}, {.momentum = 0.9, .ranks = 4});
  expect_follows_the_rule({.density = 0.005, .warmup = 16, .stage = plan::EntropyStage::kHuffman},
                          {.momentum = 0.9});
}

TEST(DgcEncoder, OnePercentStillComesToTheOptimum) {
  constexpr std::size_t kCount = 1000;
  const auto codec = make_topk(0.01, /*exact=*/false);
  Quadratic problem(kCount);
  Floats x(kCount);
  const double before = problem.distance(x);
  const auto encoder =
      Encoder::make(dgc({.density = 0.01, .warmup = 100}), *codec, kCount, {.momentum = 0.9});
  for (std::uint64_t step = 0; step < 3000; ++step) {
    const Floats sent = sent_by(*encoder, *codec, problem.gradient(x, 0.0), step);
    for (std::size_t i = 0; i < kCount; ++i) x[i] -= 0.002F * sent[i];
  }
  EXPECT_LT(problem.distance(x), 0.05 * before);
}

TEST(DgcEncoder, NonFiniteGradientsArriveOnceAndLeaveNothing) {
  const auto codec = make_topk(0.01, /*exact=*/false);
  for (const bool masks : {true, false}) {
    const DgcCase c{.density = 0.01, .clip = 1, .masks = masks};
    const auto encoder = Encoder::make(dgc(c), *codec, 200, {.momentum = 0.9});
    Floats gradient(200, 0.001F);
    gradient[7] = std::nanf("");
    gradient[8] = std::numeric_limits<float>::infinity();
    const Floats sent = sent_by(*encoder, *codec, gradient, 0);
    EXPECT_TRUE(std::isnan(sent[7]));
    EXPECT_TRUE(std::isinf(sent[8]));
    for (const Encoder::State& state : encoder->states()) {
      EXPECT_EQ(state.values[7], 0.0F);
      EXPECT_EQ(state.values[8], 0.0F);
    }
    for (const float value : sent_by(*encoder, *codec, Floats(200, 0.001F), 1))
      EXPECT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace tally::codec
