#include "exchange/group/slice.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "optimizer/update_rule.h"
#include "soon.h"

namespace tally::exchange {
namespace {

constexpr std::size_t kElements = 9000;  // more than two chunks

// One parameter of one rank, updated by a Slice.
class SliceOf {
 public:
  SliceOf(const OptimizerSpec& spec, int generations, bool apart = false)
      : parameters_({{.name = "p", .shape = {static_cast<std::int64_t>(kElements)}}}),
        optimizers_({spec}) {
    const auto factory = ordinary_memory();
    const std::vector<std::size_t> order = {0};
    memory_ = *ModelMemory::make(*factory, 0, make_layout(parameters_, order, std::size_t{1} << 30),
                                 generations, soon());
    const Slice::Options options{.memory = *memory_,
                                 .range = {0, kElements},
                                 .parameters = parameters_,
                                 .optimizers = optimizers_,
                                 .apart = apart};
    EXPECT_TRUE(
        memory_->make_state(*factory, {std::vector<StateArrays>{Slice::needs(options)}}, soon())
            .has_value());
    Rng rng(3);
    for (std::size_t i = 0; i < kElements; ++i) values()[i] = static_cast<float>(rng.uniform());
    slice_ = Slice::make(options);
    gradients_ = std::make_unique<BucketAccumulator>(*memory_, 0, 0, 1);
    memory_->flags(0).weigh(1, 1);
    gradients_->add(0, nullptr);
    gradients_->close(1);
  }

  float* values() { return at(memory_->present()); }
  float* next_values() { return at(memory_->next()); }
  ModelMemory& memory() { return *memory_; }
  Slice& slice() { return *slice_; }

  // The gradient of step `step`.
  static std::vector<float> gradient(std::uint64_t step) {
    Rng rng(step + 100);
    std::vector<float> gradient(kElements);
    for (float& value : gradient) value = static_cast<float>(rng.uniform() - 0.5);
    return gradient;
  }
  void update(std::uint64_t step, bool used = true) {
    const std::vector<float> own = gradient(step);
    std::memcpy(memory_->gradient_bucket(0, 0), own.data(), kElements * sizeof(float));
    const std::vector<double> rates = {optimizers_[0].rate};
    const std::vector<std::uint64_t> steps = {step};
    const std::vector<std::uint8_t> is_used = {used ? std::uint8_t{1} : std::uint8_t{0}};
    slice_->sum_and_update(*gradients_, 1, 0,
                           {.rates = rates, .steps = steps, .used = is_used, .updates = step});
  }

 private:
  float* at(int generation) { return reinterpret_cast<float*>(memory_->values(0, generation)); }

  const std::vector<ParameterInfo> parameters_;
  const std::vector<OptimizerSpec> optimizers_;
  std::unique_ptr<ModelMemory> memory_;
  std::unique_ptr<Slice> slice_;
  std::unique_ptr<BucketAccumulator> gradients_;
};

TEST(Slice, WritesTheNextVersionBesideThePresentOne) {
  const OptimizerSpec spec = adam({.rate = 0.01});
  SliceOf own(spec, 2);
  std::vector<float> expected(own.values(), own.values() + kElements);
  std::vector<std::vector<float>> state(2, std::vector<float>(kElements));
  for (std::uint64_t step = 0; step < 3; ++step) {
    const std::vector<float> before(own.values(), own.values() + kElements);
    own.update(step);
    EXPECT_EQ(0, std::memcmp(own.values(), before.data(), kElements * sizeof(float)))
        << "the present version changed";
    own.memory().flip();
    std::vector<float> gradient = SliceOf::gradient(step);
    optimizer::update(
        spec, {.step = step + 1, .rate = spec.rate},
        optimizer::Segment<float>{
            .parameters = expected, .gradient = gradient, .state = {state[0], state[1]}});
    EXPECT_EQ(0, std::memcmp(own.values(), expected.data(), kElements * sizeof(float))) << step;
  }
}

TEST(Slice, AnUpdateThatIsRepeatedHasTheSameResult) {
  SliceOf own(sgd({.rate = 0.1, .momentum = 0.9}), 2);
  own.update(0);
  own.memory().flip();
  own.update(1);
  const std::vector<float> once(own.next_values(), own.next_values() + kElements);
  // A step that was discarded is made again, from the same version.
  own.update(1);
  EXPECT_EQ(0, std::memcmp(own.next_values(), once.data(), kElements * sizeof(float)));
}

TEST(Slice, AParameterThatNobodyUsesIsCarriedOver) {
  SliceOf own(sgd({.rate = 0.1, .momentum = 0.9}), 2);
  own.update(0);
  own.memory().flip();
  const auto states = own.slice().states({0, kElements});
  const std::vector<std::byte> momentum(states[0].state[0].begin(), states[0].state[0].end());
  const std::vector<float> before(own.values(), own.values() + kElements);
  own.update(1, /*used=*/false);
  own.memory().flip();
  EXPECT_EQ(0, std::memcmp(own.values(), before.data(), kElements * sizeof(float)));
  const auto now = own.slice().states({0, kElements});
  EXPECT_EQ(0, std::memcmp(now[0].state[0].data(), momentum.data(), momentum.size()));
}

TEST(Slice, NewValuesForOtherHostsAreApart) {
  SliceOf own(sgd({.rate = 0.1}), 2, /*apart=*/true);
  SliceOf same(sgd({.rate = 0.1}), 1);
  own.update(0);
  same.update(0);
  const std::span<const std::byte> outgoing = own.slice().outgoing();
  ASSERT_EQ(outgoing.size(), kElements * sizeof(float));
  EXPECT_EQ(0, std::memcmp(outgoing.data(), same.values(), outgoing.size()));
}

}  // namespace
}  // namespace tally::exchange
