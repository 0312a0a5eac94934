#include "server/storage/storage.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "server/protocol/message.h"
#include "server/storage/storage_test_support.h"
#include "server/testing/test_reference.h"

namespace tally::server {
namespace {

// A range of elements.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  template <typename T>
  std::span<const std::byte> of(const std::vector<T>& values) const {
    return std::as_bytes(std::span<const T>(values).subspan(begin, end - begin));
  }
};

constexpr std::size_t kCount = 5003;

template <typename T>
class DenseStorageOf : public ::testing::Test {
 protected:
  TableSpec spec(const OptimizerSpec& optimizer) {
    return dense_spec(kDataTypeOf<T>, kCount, optimizer);
  }
  MemoryBudget budget_{0};
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DenseStorageOf, Types);

TYPED_TEST(DenseStorageOf, EveryOptimizerFollowsItsPlainReferenceOverFiftySteps) {
  using T = TypeParam;
  const double tolerance = std::is_same_v<T, float> ? 2e-5 : 1e-12;
  for (const OptimizerSpec& optimizer : table_optimizers()) {
    Rng rng(3);
    const auto storage = made(this->spec(optimizer), this->budget_);
    const auto start = random_numbers<T>(kCount, rng);
    TALLY_EXPECT_OK(storage->assign({.values = bytes_view(start)}));
    std::vector<ReferenceNumber> expected;
    for (const T value : start) expected.emplace_back(optimizer, value);
    for (int step = 1; step <= 50; ++step) {
      const auto gradient = random_numbers<T>(kCount, rng);
      const double rate = optimizer.rate / (1 + 0.01 * step);
      const Gradient pushed{.values = bytes_view(gradient)};
      TALLY_EXPECT_OK(storage->apply({&pushed, 1}, {.rate = rate}));
      for (std::size_t i = 0; i < kCount; ++i) expected[i].step(rate, gradient[i]);
    }
    const auto values = read_all<T>(*storage);
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_NEAR(values[i], expected[i].value(), tolerance) << to_string(optimizer) << " " << i;
  }
}

// Tables of this size are read with stores that bypass the caches where the alignment permits.
TYPED_TEST(DenseStorageOf, OthersReadLargeTablesAsTheyAreWhereverTheirMemoryLies) {
  using T = TypeParam;
  Rng rng(6);
  const auto storage =
      made(dense_spec(kDataTypeOf<T>, (std::size_t{64} << 20) / sizeof(T)), this->budget_);
  const auto values = random_numbers<T>(storage->value_bytes(0) / sizeof(T), rng);
  const auto expected = bytes_view(values);
  TALLY_EXPECT_OK(storage->assign({.values = expected}));
  std::vector<std::byte> memory(expected.size() + 128);
  const auto misplaced = reinterpret_cast<std::uintptr_t>(memory.data()) % 64;
  for (const std::size_t shift : {0U, 8U}) {
    const auto out = std::span(memory).subspan(64 - misplaced + shift, expected.size());
    std::fill(memory.begin(), memory.end(), std::byte{0});
    TALLY_EXPECT_OK(storage->read_for_others({}, out));
    EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size()), 0);
    EXPECT_FALSE(storage->read_for_others({}, out.first(8)).has_value());
  }
}

TYPED_TEST(DenseStorageOf, SeveralGradientsCountAsTheirMeanByWeight) {
  using T = TypeParam;
  Rng rng(4);
  const auto storage = made(this->spec(adam()), this->budget_);
  const auto alone = made(this->spec(adam()), this->budget_);
  // The normalized weights are powers of two, so the mean has no rounding error.
  const double weights[] = {3, 0, 6, 3};
  for (int step = 0; step < 3; ++step) {
    std::vector<std::vector<T>> numbers;
    std::vector<Gradient> gradients;
    std::vector<T> mean(kCount, 0);
    for (const double weight : weights) {
      numbers.push_back(random_numbers<T>(kCount, rng));
      for (std::size_t i = 0; i < kCount; ++i)
        mean[i] += static_cast<T>(weight / 12) * numbers.back()[i];
    }
    for (std::size_t r = 0; r < 4; ++r)
      gradients.push_back({.values = bytes_view(numbers[r]), .weight = weights[r]});
    TALLY_EXPECT_OK(storage->apply(gradients, {.rate = 0.1}));
    const Gradient single{.values = bytes_view(mean), .weight = 0.3};
    TALLY_EXPECT_OK(alone->apply({&single, 1}, {.rate = 0.1}));
    EXPECT_EQ(read_all<T>(*storage), read_all<T>(*alone));
  }
}

TYPED_TEST(DenseStorageOf, WithoutWeightNothingChanges) {
  using T = TypeParam;
  const auto storage = made(this->spec(adam()), this->budget_);
  const std::vector<T> ones(kCount, 1);
  const Gradient nothing{.values = bytes_view(ones), .weight = 0};
  TALLY_EXPECT_OK(storage->apply({&nothing, 1}, {.rate = 0.1}));
  TALLY_EXPECT_OK(storage->apply({}, {.rate = 0.1}));
  EXPECT_EQ(read_all<T>(*storage), std::vector<T>(kCount, 0));
}

TYPED_TEST(DenseStorageOf, DelayIsCompensatedAsThePaperSays) {
  using T = TypeParam;
  const double tolerance = std::is_same_v<T, float> ? 2e-5 : 1e-12;
  for (const bool adaptive : {false, true}) {
    Rng rng(5);
    const OptimizerSpec optimizer = sgd({.momentum = 0.9});
    const auto storage = made(this->spec(optimizer), this->budget_);
    const auto start = random_numbers<T>(kCount, rng);
    TALLY_EXPECT_OK(storage->assign({.values = bytes_view(start)}));
    std::vector<ReferenceNumber> expected;
    for (const T value : start) expected.emplace_back(optimizer, value);
    for (int step = 0; step < 10; ++step) {
      const auto gradient = random_numbers<T>(kCount, rng);
      const auto backup = random_numbers<T>(kCount, rng);
      const Gradient pushed{.values = bytes_view(gradient), .backup = bytes_view(backup)};
      TALLY_EXPECT_OK(
          storage->apply({&pushed, 1}, {.rate = 0.1, .compensation = 0.5, .adaptive = adaptive}));
      for (std::size_t i = 0; i < kCount; ++i)
        expected[i].step(0.1, expected[i].compensated(gradient[i], 0.5, adaptive, backup[i]));
    }
    const auto values = read_all<T>(*storage);
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_NEAR(values[i], expected[i].value(), tolerance) << adaptive << " " << i;
  }
}

TYPED_TEST(DenseStorageOf, ACompensationOfZeroOrWithoutBackupIsNone) {
  using T = TypeParam;
  Rng rng(6);
  const auto plain = made(this->spec(sgd()), this->budget_);
  const auto zero = made(this->spec(sgd()), this->budget_);
  const auto bare = made(this->spec(sgd()), this->budget_);
  const auto gradient = random_numbers<T>(kCount, rng);
  const auto backup = random_numbers<T>(kCount, rng);
  const Gradient pushed{.values = bytes_view(gradient)};
  const Gradient with_backup{.values = bytes_view(gradient), .backup = bytes_view(backup)};
  TALLY_EXPECT_OK(plain->apply({&pushed, 1}, {.rate = 0.1}));
  TALLY_EXPECT_OK(zero->apply({&with_backup, 1}, {.rate = 0.1}));
  TALLY_EXPECT_OK(bare->apply({&pushed, 1}, {.rate = 0.1, .compensation = 1, .adaptive = true}));
  EXPECT_EQ(read_all<T>(*plain), read_all<T>(*zero));
  EXPECT_EQ(read_all<T>(*plain), read_all<T>(*bare));
}

// A round of gradients that were computed at different values: each has its own backup and factor.
TYPED_TEST(DenseStorageOf, EachGradientOfARoundHasItsOwnDelay) {
  using T = TypeParam;
  const double tolerance = std::is_same_v<T, float> ? 1e-6 : 1e-14;
  Rng rng(14);
  const auto storage = made(this->spec(sgd()), this->budget_);
  const auto start = random_numbers<T>(kCount, rng);
  TALLY_EXPECT_OK(storage->assign({.values = bytes_view(start)}));
  const std::vector<T> gradients[] = {random_numbers<T>(kCount, rng),
                                      random_numbers<T>(kCount, rng)};
  const std::vector<T> backups[] = {random_numbers<T>(kCount, rng), random_numbers<T>(kCount, rng)};
  constexpr double kWeights[] = {1, 3}, kFactors[] = {1, 0.5};
  std::vector<Gradient> round;
  for (std::size_t r = 0; r < 2; ++r)
    round.push_back({.values = bytes_view(gradients[r]),
                     .weight = kWeights[r],
                     .factor = kFactors[r],
                     .backup = bytes_view(backups[r])});
  TALLY_EXPECT_OK(storage->apply(round, {.rate = 0.1, .compensation = 0.5}));
  const auto values = read_all<T>(*storage);
  for (std::size_t i = 0; i < kCount; ++i) {
    double sum = 0;
    for (std::size_t r = 0; r < 2; ++r) {
      const double g = gradients[r][i];
      const double moved = static_cast<double>(start[i]) - static_cast<double>(backups[r][i]);
      sum += kWeights[r] / 4 * kFactors[r] * (g + 0.5 * g * g * moved);
    }
    ASSERT_NEAR(values[i], start[i] - 0.1 * sum, tolerance) << i;
  }
}

// With stale=scale the mean of factors is that of the learning rate, so that an optimizer that
// divides by the size of gradients makes shorter steps as well.
TYPED_TEST(DenseStorageOf, FactorsShortenTheStepsOfEveryOptimizer) {
  using T = TypeParam;
  Rng rng(15);
  const auto gradient = random_numbers<T>(kCount, rng);
  for (const OptimizerSpec& optimizer : table_optimizers()) {
    const auto whole = made(this->spec(optimizer), this->budget_);
    const auto half = made(this->spec(optimizer), this->budget_);
    const Gradient full{.values = bytes_view(gradient)};
    const Gradient late{.values = bytes_view(gradient), .factor = 0.5};
    TALLY_EXPECT_OK(whole->apply({&full, 1}, {.rate = 0.05}));
    TALLY_EXPECT_OK(half->apply({&late, 1}, {.rate = 0.1}));
    EXPECT_EQ(read_all<T>(*whole), read_all<T>(*half)) << to_string(optimizer);
  }
}

TYPED_TEST(DenseStorageOf, AGatheredRoundIsAppliedLikeAnyOther) {
  using T = TypeParam;
  Rng rng(16);
  for (const OptimizerSpec& optimizer : table_optimizers()) {
    const auto at_once = made(this->spec(optimizer), this->budget_);
    const auto gathered = made(this->spec(optimizer), this->budget_);
    for (int step = 0; step < 3; ++step) {
      const auto one = random_numbers<T>(kCount, rng);
      const auto other = random_numbers<T>(kCount, rng);
      const std::vector<Gradient> round = {{.values = bytes_view(one), .weight = 2},
                                           {.values = bytes_view(other)}};
      TALLY_EXPECT_OK(at_once->apply(round, {.rate = 0.1}));
      // A mean that is given up leaves nothing behind.
      TALLY_EXPECT_OK(gathered->gather({round.data(), 1}, {.rate = 7}));
      gathered->forget_gathered();
      TALLY_EXPECT_OK(gathered->gather(round, {.rate = 0.1}));
      double squares = 0;
      for (std::size_t i = 0; i < kCount; ++i)
        squares += std::pow((2.0 * one[i] + other[i]) / 3, 2);
      EXPECT_NEAR(gathered->measure(1, false).gradient, squares, 1e-4);
      EXPECT_NEAR(gathered->measure(0.5, false).gradient, squares / 4, 1e-4);
      TALLY_EXPECT_OK(gathered->apply_gathered({}));
    }
    EXPECT_EQ(read_all<T>(*at_once), read_all<T>(*gathered)) << to_string(optimizer);
  }
}

TYPED_TEST(DenseStorageOf, AGatheredMeanIsClippedByValueAndFactor) {
  using T = TypeParam;
  Rng rng(17);
  TableSpec spec = this->spec(sgd());
  spec.measured = true;
  spec.clip_value = 0.3;
  const auto storage = made(spec, this->budget_);
  const auto gradient = random_numbers<T>(kCount, rng);
  const Gradient pushed{.values = bytes_view(gradient)};
  TALLY_EXPECT_OK(storage->gather({&pushed, 1}, {.rate = 0.5}));
  TALLY_EXPECT_OK(storage->apply_gathered({.factor = 0.25}));
  const auto values = read_all<T>(*storage);
  for (std::size_t i = 0; i < kCount; ++i)
    ASSERT_NEAR(values[i], -0.125 * std::clamp(static_cast<double>(gradient[i]), -0.3, 0.3), 1e-7);
}

// lamb and lars over two parts give the bits of one update of the whole tensor.
TYPED_TEST(DenseStorageOf, LayerwiseOptimizersNeedOnlyTheNormsOfTheWhole) {
  using T = TypeParam;
  for (const OptimizerSpec& optimizer : {lamb(), lars({.rate = 0.5, .weight_decay = 0.01})}) {
    Rng rng(18);
    TableSpec spec = dense_spec(kDataTypeOf<T>, kPartBytes / sizeof(T) + 1000, optimizer);
    spec.measured = true;
    const auto start = random_numbers<T>(spec.count, rng);
    std::vector<std::unique_ptr<Storage>> parts;
    std::vector<Range> ranges;
    for (std::uint32_t part = 0; part < 2; ++part) {
      parts.push_back(made(spec, this->budget_, part));
      const std::size_t begin = part * (kPartBytes / sizeof(T));
      ranges.push_back({begin, begin + elements_of(spec, part)});
      TALLY_EXPECT_OK(parts[part]->assign({.values = ranges[part].of(start)}));
    }
    std::vector<T> whole = start, state[2];
    for (auto& array : state) array.assign(spec.count, T(0));
    for (std::uint64_t step = 1; step <= 3; ++step) {
      auto gradient = random_numbers<T>(spec.count, rng);
      Squares sums;
      for (std::uint32_t part = 0; part < 2; ++part) {
        const Gradient pushed{.values = ranges[part].of(gradient)};
        TALLY_EXPECT_OK(parts[part]->gather({&pushed, 1}, {.rate = 0.1}));
        const Squares squares = parts[part]->measure(1, /*direction=*/true);
        sums.values += squares.values;
        sums.gradient += squares.gradient;
      }
      const optimizer::Norms norms{.parameters = std::sqrt(sums.values),
                                   .gradient = std::sqrt(sums.gradient)};
      for (const auto& part : parts) TALLY_EXPECT_OK(part->apply_gathered({.norms = norms}));
      optimizer::Segment<T> segment{whole, gradient, {state[0], state[1]}};
      const optimizer::StepFacts facts{.step = step, .rate = 0.1};
      optimizer::prepare(optimizer, facts, segment);
      double values = 0, direction = 0;
      for (const T value : whole) values += static_cast<double>(value) * value;
      for (const T value : gradient) direction += static_cast<double>(value) * value;
      EXPECT_NEAR(sums.values / values, 1, 1e-6);
      EXPECT_NEAR(sums.gradient / direction, 1, 1e-6);
      optimizer::finish(optimizer, facts, norms, segment);
    }
    for (std::uint32_t part = 0; part < 2; ++part) {
      const auto values = read_all<T>(*parts[part]);
      EXPECT_TRUE(std::equal(values.begin(), values.end(), whole.begin() + ranges[part].begin))
          << to_string(optimizer);
    }
  }
}

TYPED_TEST(DenseStorageOf, BytesMayLieAtAnyAddress) {
  using T = TypeParam;
  Rng rng(7);
  const auto numbers = random_numbers<T>(kCount, rng);
  std::vector<std::byte> shifted(kCount * sizeof(T) + 1);
  std::memcpy(shifted.data() + 1, numbers.data(), kCount * sizeof(T));
  const Gradient odd{.values = std::span(shifted).subspan(1)};
  const Gradient even{.values = bytes_view(numbers)};
  const auto one = made(this->spec(sgd()), this->budget_);
  const auto other = made(this->spec(sgd()), this->budget_);
  TALLY_EXPECT_OK(one->apply({&odd, 1}, {.rate = 0.1}));
  TALLY_EXPECT_OK(one->add(odd));
  TALLY_EXPECT_OK(one->add_atomically(odd, 0.5));
  TALLY_EXPECT_OK(other->apply({&even, 1}, {.rate = 0.1}));
  TALLY_EXPECT_OK(other->add(even));
  TALLY_EXPECT_OK(other->add_atomically(even, 0.5));
  EXPECT_EQ(read_all<T>(*one), read_all<T>(*other));
  std::vector<std::byte> out(kCount * sizeof(T) + 1);
  TALLY_EXPECT_OK(one->read({}, std::span(out).subspan(1)));
  EXPECT_EQ(std::memcmp(out.data() + 1, read_all<T>(*one).data(), kCount * sizeof(T)), 0);
}

TYPED_TEST(DenseStorageOf, PiecesOfAnySizeGiveTheSameBits) {
  using T = TypeParam;
  for (const OptimizerSpec& optimizer : table_optimizers()) {
    Rng rng(8);
    const auto from = made(this->spec(optimizer), this->budget_);
    const auto gradient = random_numbers<T>(kCount, rng);
    const Gradient pushed{.values = bytes_view(gradient), .backup = bytes_view(gradient)};
    const ApplyOptions options{.rate = 0.1, .compensation = 0.1, .adaptive = true};
    for (int step = 0; step < 3; ++step) TALLY_EXPECT_OK(from->apply({&pushed, 1}, options));
    for (const std::size_t max_bytes : {std::size_t{100}, std::size_t{4097}, kMaxPayloadBytes}) {
      const auto to = made(this->spec(optimizer), this->budget_);
      for (const auto& piece : from->pieces({}, true, max_bytes)) {
        EXPECT_LE(piece.size(), max_bytes);
        TALLY_EXPECT_OK(to->take(piece));
      }
      EXPECT_EQ(from->pieces({}, true, kMaxPayloadBytes), to->pieces({}, true, kMaxPayloadBytes));
      // The next step shows that the step count was transferred.
      TALLY_EXPECT_OK(to->apply({&pushed, 1}, options));
      const auto twin = made(this->spec(optimizer), this->budget_);
      for (int step = 0; step < 4; ++step) TALLY_EXPECT_OK(twin->apply({&pushed, 1}, options));
      EXPECT_EQ(read_all<T>(*to), read_all<T>(*twin)) << to_string(optimizer);
    }
  }
}

TYPED_TEST(DenseStorageOf, ValuesStateAndStepsWrittenBackGoOnAsBefore) {
  using T = TypeParam;
  Rng rng(9);
  const auto gradient = random_numbers<T>(kCount, rng);
  const Gradient pushed{.values = bytes_view(gradient)};
  const auto from = made(this->spec(adam()), this->budget_);
  for (int step = 0; step < 5; ++step) TALLY_EXPECT_OK(from->apply({&pushed, 1}, {.rate = 0.1}));
  const auto to = made(this->spec(adam()), this->budget_);
  const auto values = read_all<T>(*from);
  TALLY_EXPECT_OK(to->assign({.values = bytes_view(values)}));
  std::vector<T> state(kCount);
  for (const int array : {0, 1}) {
    TALLY_EXPECT_OK(from->read_state(array, std::as_writable_bytes(std::span(state))));
    TALLY_EXPECT_OK(to->write_state(array, bytes_view(state)));
  }
  to->set_steps(5);
  TALLY_EXPECT_OK(from->apply({&pushed, 1}, {.rate = 0.1}));
  TALLY_EXPECT_OK(to->apply({&pushed, 1}, {.rate = 0.1}));
  EXPECT_EQ(read_all<T>(*from), read_all<T>(*to));
}

TYPED_TEST(DenseStorageOf, AssignAndClearMakeStateAsAtFirst) {
  using T = TypeParam;
  const OptimizerSpec optimizer = adagrad({.rate = 0.1, .initial_accumulator = 0.25});
  const std::vector<T> ones(kCount, 1), zeros(kCount, 0);
  const Gradient pushed{.values = bytes_view(ones)};
  const auto used = made(this->spec(optimizer), this->budget_);
  const auto fresh = made(this->spec(optimizer), this->budget_);
  const auto cleared = made(this->spec(optimizer), this->budget_);
  TALLY_EXPECT_OK(used->apply({&pushed, 1}, {.rate = 0.1}));
  TALLY_EXPECT_OK(cleared->apply({&pushed, 1}, {.rate = 0.1}));
  TALLY_EXPECT_OK(used->assign({.values = bytes_view(zeros)}));
  cleared->clear();
  const auto expected = fresh->pieces({}, true, kMaxPayloadBytes);
  EXPECT_EQ(used->pieces({}, true, kMaxPayloadBytes), expected);
  EXPECT_EQ(cleared->pieces({}, true, kMaxPayloadBytes), expected);
}

// Integers below 2^24 are exact in float, in any order of addition.
TYPED_TEST(DenseStorageOf, AtomicAdditionsFromManyThreadsAreAllThere) {
  using T = TypeParam;
  constexpr int kThreads = 4, kRounds = 60;
  const auto storage = made(this->spec(sgd()), this->budget_);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&storage, thread] {
        std::vector<T> values(kCount);
        for (int round = 0; round < kRounds; ++round) {
          for (std::size_t i = 0; i < kCount; ++i)
            values[i] = static_cast<T>((i + static_cast<std::size_t>(thread + round)) % 64);
          TALLY_CHECK(storage->add_atomically({.values = bytes_view(values)}, 2).has_value());
        }
      });
    }
  }
  std::vector<T> expected(kCount, 0);
  for (int thread = 0; thread < kThreads; ++thread)
    for (int round = 0; round < kRounds; ++round)
      for (std::size_t i = 0; i < kCount; ++i)
        expected[i] += 2 * static_cast<T>((i + static_cast<std::size_t>(thread + round)) % 64);
  EXPECT_EQ(read_all<T>(*storage), expected);
}

TYPED_TEST(DenseStorageOf, WhatDoesNotFitIsRefusedAndNothingChanges) {
  using T = TypeParam;
  const auto storage = made(this->spec(adam()), this->budget_);
  const std::vector<T> few(kCount - 1, 1), right(kCount, 1);
  const Gradient short_one{.values = bytes_view(few)};
  EXPECT_EQ(storage->apply({&short_one, 1}, {}).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(storage->add(short_one).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(storage->assign(short_one).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(storage->add_atomically(short_one, 1).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(storage->write_state(0, bytes_view(few)).error().code, ErrorCode::kCorrupt);
  for (const int array : {-1, 2}) {
    EXPECT_EQ(storage->write_state(array, bytes_view(right)).error().code, ErrorCode::kInvalid);
    std::vector<T> out(kCount);
    EXPECT_EQ(storage->read_state(array, std::as_writable_bytes(std::span(out))).error().code,
              ErrorCode::kInvalid);
  }
  const Gradient short_backup{.values = bytes_view(right), .backup = bytes_view(few)};
  EXPECT_EQ(storage->apply({&short_backup, 1}, {.compensation = 1}).error().code,
            ErrorCode::kCorrupt);
  for (const double weight :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const Gradient odd{.values = bytes_view(right), .weight = weight};
    EXPECT_EQ(storage->apply({&odd, 1}, {}).error().code, ErrorCode::kInvalid);
  }
  const std::uint64_t key = 1;
  EXPECT_EQ(storage->prepare_rows({&key, 1}).error().code, ErrorCode::kInvalid);
  std::vector<T> out(kCount - 1);
  EXPECT_EQ(storage->read({}, std::as_writable_bytes(std::span(out))).error().code,
            ErrorCode::kCorrupt);
  EXPECT_EQ(read_all<T>(*storage), std::vector<T>(kCount, 0));
}

TYPED_TEST(DenseStorageOf, APieceOfAnotherPartIsCorrupt) {
  using T = TypeParam;
  const auto storage = made(this->spec(sgd()), this->budget_);
  const auto with_state = made(this->spec(adam()), this->budget_);
  const auto longer = made(dense_spec(kDataTypeOf<T>, kCount + 1), this->budget_);
  const DataType other_type = std::is_same_v<T, float> ? DataType::kFloat64 : DataType::kFloat32;
  const auto other = made(dense_spec(other_type, kCount), this->budget_);
  const auto sparse = made(sparse_spec(1), this->budget_);
  for (Storage* const from : {with_state.get(), longer.get(), other.get(), sparse.get()}) {
    const auto pieces = from->pieces({}, true, kMaxPayloadBytes);
    EXPECT_EQ(storage->take(pieces[0]).error().code, ErrorCode::kCorrupt);
  }
}

TEST(DenseStorage, TheMemoryLimitIsNamed) {
  MemoryBudget budget(1 << 20);
  TableSpec spec = dense_spec(DataType::kFloat32, 1 << 20, adam());
  {
    const auto first = made(spec, budget);
    EXPECT_EQ(first->elements(), 65536U);
    EXPECT_EQ(first->bytes(), 3U * 65536 * 4);
    const auto second = make_storage(spec, 1, budget);
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, ErrorCode::kExhausted);
    EXPECT_EQ(second.error().message,
              "table 'weights' part 1: no memory for 65536 elements in 787008 bytes: 790528 of "
              "1048576 bytes are in use");
  }
  EXPECT_EQ(budget.used(), 0U);
}

TEST(DenseStorage, AMeanSquareBeyondTheLimitIsRefused) {
  MemoryBudget budget(8192);
  const auto storage = made(dense_spec(DataType::kFloat32, 1024), budget);
  const std::vector<float> ones(1024, 1);
  const Gradient pushed{.values = bytes_view(ones), .backup = bytes_view(ones)};
  const auto refused = storage->apply({&pushed, 1}, {.compensation = 1, .adaptive = true});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  EXPECT_EQ(read_all<float>(*storage), std::vector<float>(1024, 0));
}

}  // namespace
}  // namespace tally::server
