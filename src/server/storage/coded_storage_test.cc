// Storage of tables with a codec: the storage applies the average as decoded, and keeps the
// residual.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "optimizer/update_rule.h"
#include "server/storage/storage_test_support.h"
#include "server/testing/test_follower.h"

namespace tally::server {
namespace {

// Two parts; the last one is short.
constexpr std::size_t kCodedCount = 65536 + 300;

TableSpec coded_spec(const std::string& codec, const std::string& plan = "update=bsp",
                     const OptimizerSpec& optimizer = sgd({.rate = 1, .momentum = 0.5})) {
  TableSpec spec = dense_spec(DataType::kFloat32, kCodedCount, optimizer);
  spec.plan = plan;
  spec.codec = codec;
  spec.first_element = 77;
  return spec;
}

// The second part as a table of its own.
TableSpec second_part(TableSpec spec) {
  spec.count = 300;
  spec.first_element += 65536;
  return spec;
}

std::vector<float> apply(Storage& storage, std::uint64_t version, std::uint64_t seed) {
  Rng rng(seed);
  const auto gradient = random_numbers<float>(300, rng);
  const Gradient one{.values = bytes_view(gradient)};
  EXPECT_TRUE(storage.apply(std::span(&one, 1), {.rate = 0.5, .version = version}).has_value());
  return gradient;
}

TEST(CodedStorage, EachPartDrawsForItsOwnPlaceInTheModel) {
  for (const char* const codec : {"qsgd:4", "sign:32", "ternary", "onebit:column"}) {
    TableSpec spec = coded_spec(codec);
    // The second part starts inside a row of the matrix.
    spec.columns = 100;
    MemoryBudget budget(0);
    const auto storage = made(spec, budget, 1);
    test::Follower follower(second_part(spec), 300, 65536);
    for (std::uint64_t version = 10; version < 14; ++version) {
      const auto gradient = apply(*storage, version, version);
      follower.send_back(gradient, version, 0.5);
      EXPECT_EQ(read_all<float>(*storage), follower.values()) << codec;
    }
  }
}

TEST(CodedStorage, ACopyGoesOnWithTheSameBits) {
  MemoryBudget budget(0);
  const TableSpec spec = coded_spec("sign:32", "update=bsp", adam());
  const auto original = made(spec, budget, 1);
  for (std::uint64_t version = 0; version < 3; ++version) apply(*original, version, version);
  const auto copy = made(spec, budget, 1);
  // The values, two arrays of adam, and the residual of the broadcast.
  EXPECT_EQ(copy->bytes(), 4U * 300 * sizeof(float));
  for (const auto& piece : original->pieces({}, true, 1000)) TALLY_EXPECT_OK(copy->take(piece));
  EXPECT_TRUE(copy->average().empty());
  EXPECT_FALSE(original->average().empty());
  for (std::uint64_t version = 3; version < 5; ++version) {
    apply(*original, version, version);
    apply(*copy, version, version);
    EXPECT_EQ(read_all<float>(*original), read_all<float>(*copy));
  }
  // A table without a residual array cannot take the pieces.
  const auto other = made(coded_spec("bf16", "update=bsp", adam()), budget, 1);
  EXPECT_EQ(other->take(original->pieces({}, true, 10000).front()).error().code,
            ErrorCode::kCorrupt);
}

TEST(CodedStorage, OneGradientThatIsNotFiniteDoesNotSpoilLaterAverages) {
  for (const char* const codec : {"sign:32", "int8:32,feedback=on"}) {
    MemoryBudget budget(0);
    const auto storage = made(coded_spec(codec), budget, 1);
    std::vector<float> odd(300, 0.25F);
    odd[40] = std::numeric_limits<float>::quiet_NaN();
    const Gradient one{.values = bytes_view(odd)};
    TALLY_EXPECT_OK(storage->apply(std::span(&one, 1), {.rate = 0.5, .version = 0}));
    apply(*storage, 1, 7);
    std::vector<float> average(300);
    const auto back = codec::make_broadcast_codec(*plan::parse_codec(codec));
    TALLY_EXPECT_OK(back.codec->decode(storage->average(), average));
    for (const float value : average) EXPECT_TRUE(std::isfinite(value)) << codec;
  }
}

TEST(CodedStorage, ADiscardedUpdateHasNoAverage) {
  MemoryBudget budget(0);
  TableSpec spec = coded_spec("sign:32");
  spec.measured = true;
  const auto storage = made(spec, budget, 1);
  const std::vector<float> gradient(300, 0.25F);
  const Gradient one{.values = bytes_view(gradient)};
  TALLY_EXPECT_OK(storage->gather(std::span(&one, 1), {.rate = 0.5, .version = 0}));
  TALLY_EXPECT_OK(storage->apply_gathered({}));
  EXPECT_FALSE(storage->average().empty());
  TALLY_EXPECT_OK(storage->gather(std::span(&one, 1), {.rate = 0.5, .version = 1}));
  storage->forget_gathered();
  EXPECT_TRUE(storage->average().empty());
}

TEST(CodedStorage, AssignmentsBeginAnew) {
  MemoryBudget budget(0);
  const TableSpec spec = coded_spec("sign:32");
  const auto used = made(spec, budget, 1);
  for (std::uint64_t version = 0; version < 3; ++version) apply(*used, version, version);
  const std::vector<float> zeros(300);
  TALLY_EXPECT_OK(used->assign({.values = bytes_view(zeros)}));
  const auto fresh = made(spec, budget, 1);
  apply(*used, 0, 9);
  apply(*fresh, 0, 9);
  EXPECT_EQ(read_all<float>(*used), read_all<float>(*fresh));
}

TEST(CodedStorage, OnlyInStepSomethingGoesBack) {
  MemoryBudget budget(0);
  const auto storage = made(coded_spec("sign:32", "update=asp", sgd()), budget, 1);
  const auto gradient = apply(*storage, 5, 1);
  EXPECT_TRUE(storage->average().empty());
  EXPECT_EQ(storage->bytes(), 300 * sizeof(float));
  const auto values = read_all<float>(*storage);
  for (std::size_t i = 0; i < 300; ++i) EXPECT_EQ(values[i], -0.5F * gradient[i]);
}

TEST(CodedStorage, ARoundOfNobodyHasNoAverage) {
  MemoryBudget budget(0);
  const auto storage = made(coded_spec("sign:32"), budget, 1);
  apply(*storage, 0, 1);
  const auto before = read_all<float>(*storage);
  const std::vector<Gradient> none = {{.values = {}, .weight = 0}, {.values = {}, .weight = 0}};
  TALLY_EXPECT_OK(storage->apply(none, {.version = 1}));
  EXPECT_TRUE(storage->average().empty());
  EXPECT_EQ(read_all<float>(*storage), before);
  // A gradient with a weight must have values.
  const Gradient lacking{.values = {}, .weight = 1};
  EXPECT_EQ(storage->apply(std::span(&lacking, 1), {.version = 1}).error().code,
            ErrorCode::kCorrupt);
}

// A follower counts versions, including those that changed nothing.
TEST(CodedStorage, AfterARoundOfNobodyFactorsAreAppliedAsWhoFollowsDoes) {
  for (const std::size_t senders : {1U, 2U}) {
    MemoryBudget budget(0);
    TableSpec spec = coded_spec("powersgd:2", "update=bsp", adam());
    spec.columns = 10;
    const auto storage = made(spec, budget, 1);
    const Gradient none{.values = {}, .weight = 0};
    TALLY_EXPECT_OK(storage->apply(std::span(&none, 1), {.version = 0}));
    Rng rng(3);
    auto mean = random_numbers<float>(300, rng);
    const std::vector<Gradient> all(senders, {.values = bytes_view(mean)});
    TALLY_EXPECT_OK(storage->apply(all, {.rate = 0.5, .version = 1}));
    std::vector<float> values(300), first(300), second(300);
    optimizer::update<float>(spec.optimizer, {.step = 2, .rate = 0.5},
                             {.parameters = values, .gradient = mean, .state = {first, second}});
    EXPECT_EQ(read_all<float>(*storage), values) << senders;
  }
}

// The server continues to serve for any pushed values.
TEST(CodedStorage, NoMeanIsTooOddForTheWayBack) {
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const std::vector<float> odd = {0,
                                  -0.0F,
                                  kMost,
                                  -kMost,
                                  kLeast,
                                  -kLeast,
                                  kInfinite,
                                  -kInfinite,
                                  1e-40F,
                                  1.0F,
                                  std::numeric_limits<float>::quiet_NaN()};
  for (const char* const codec : {"fp16",          "bf16:feedback=on",
                                  "int8:32",       "fp8:e4m3",
                                  "fp8:e5m2",      "qsgd:2",
                                  "qsgd:4+rans",   "qsgd:8+huffman",
                                  "ternary",       "ternary+rans",
                                  "natural",       "natural+zstd",
                                  "onebit:32",     "onebit:column",
                                  "sign:32",       "sign:32,vote",
                                  "topk:0.1",      "threshold:0.1",
                                  "randk:0.1",     "dgc:0.1",
                                  "onebit-adam:3", "int8:32,feedback=on+rans"}) {
    MemoryBudget budget(0);
    TableSpec spec = coded_spec(codec);
    spec.columns = 10;
    if (std::string(codec).starts_with("onebit-adam")) spec.optimizer = adam();
    const auto storage = made(spec, budget, 1);
    Rng rng(5);
    for (std::uint64_t version = 0; version < 40; ++version) {
      // First one special value per gradient, then gradients of only special values in random
      // order.
      std::vector<float> gradient(300, version % 2 == 0 ? 0.0F : 0.5F);
      if (version < odd.size()) {
        gradient[version] = odd[version];
      } else {
        for (float& value : gradient) value = odd[rng.below(odd.size())];
      }
      const std::vector<Gradient> both = {{.values = bytes_view(gradient)},
                                          {.values = bytes_view(gradient), .weight = 1e300}};
      TALLY_EXPECT_OK(storage->apply(both, {.rate = 0.5, .version = version}));
    }
  }
}

// Sign votes use a majority instead of a mean.
TEST(CodedStorage, VotesAreCounted) {
  MemoryBudget budget(0);
  const auto storage = made(coded_spec("sign:300,vote", "update=bsp", sgd()), budget, 1);
  std::vector<std::vector<float>> senders(3, std::vector<float>(300, 1.0F));
  for (int i = 0; i < 100; ++i) senders[0][static_cast<std::size_t>(i)] = -1;
  for (int i = 50; i < 150; ++i) senders[1][static_cast<std::size_t>(i)] = -1;
  std::vector<Gradient> gradients;
  for (const auto& sender : senders) gradients.push_back({.values = bytes_view(sender)});
  TALLY_EXPECT_OK(storage->apply(gradients, {.rate = 1}));
  const auto values = read_all<float>(*storage);
  for (std::size_t i = 0; i < 300; ++i)
    EXPECT_EQ(values[i], i >= 50 && i < 100 ? 1.0F : -1.0F) << i;
}

}  // namespace
}  // namespace tally::server
