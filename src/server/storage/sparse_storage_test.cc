#include "server/storage/storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <thread>

#include "server/protocol/message.h"
#include "server/storage/piece.h"
#include "server/storage/storage_test_support.h"
#include "server/testing/test_reference.h"

namespace tally::server {
namespace {

using Keys = std::vector<std::uint64_t>;

// Random keys out of `most` possible ones, spread over 64 bits, in random order.
Keys random_keys(std::size_t count, std::uint64_t most, Rng& rng) {
  Keys keys(most);
  std::iota(keys.begin(), keys.end(), std::uint64_t{0});
  for (std::size_t i = 0; i < count; ++i) std::swap(keys[i], keys[i + rng.below(most - i)]);
  keys.resize(count);
  for (std::uint64_t& key : keys) key *= 0x1000000000000001ULL;
  return keys;
}

Gradient gradient_of(const Keys& keys, const std::vector<float>& rows, double weight = 1) {
  return {.keys = keys, .values = bytes_view(rows), .weight = weight};
}

class SparseStorageOf : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  std::uint32_t dimension() const { return GetParam(); }
  MemoryBudget budget_{0};
};
INSTANTIATE_TEST_SUITE_P(Dimensions, SparseStorageOf, ::testing::Values(1, 3, 16, 40));

// The step count of a row counts only its own updates, and so does its reference.
TEST_P(SparseStorageOf, EveryOptimizerFollowsItsPlainReferenceRowByRow) {
  constexpr std::uint64_t kRows = 300;
  for (const OptimizerSpec& optimizer : table_optimizers()) {
    Rng rng(3);
    const auto storage = made(sparse_spec(dimension(), optimizer, 0.5), budget_);
    std::map<std::uint64_t, std::vector<ReferenceNumber>> expected;
    for (int step = 1; step <= 50; ++step) {
      const Keys keys = random_keys(1 + rng.below(kRows), kRows, rng);
      // Reading a row returns its initial values.
      const auto before = read_all<float>(*storage, keys);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        auto& row = expected[keys[i]];
        for (std::size_t d = 0; row.size() < dimension(); ++d)
          row.emplace_back(optimizer, before[i * dimension() + d]);
      }
      const auto rows = random_numbers<float>(keys.size() * dimension(), rng);
      const double rate = optimizer.rate / (1 + 0.01 * step);
      const Gradient pushed = gradient_of(keys, rows);
      TALLY_EXPECT_OK(storage->apply({&pushed, 1}, {.rate = rate}));
      for (std::size_t i = 0; i < rows.size(); ++i)
        expected[keys[i / dimension()]][i % dimension()].step(rate, rows[i]);
    }
    for (const auto& [key, row] : expected) {
      const auto values = read_all<float>(*storage, {&key, 1});
      for (std::size_t d = 0; d < dimension(); ++d)
        ASSERT_NEAR(values[d], row[d].value(), 2e-5) << to_string(optimizer) << " " << key;
    }
  }
}

TEST_P(SparseStorageOf, RowsAreTheSameWhateverTheOrderOfTouching) {
  Rng rng(4);
  Keys keys = random_keys(1000, 5000, rng);
  const auto one = made(sparse_spec(dimension(), adam(), 0.1), budget_);
  const auto other = made(sparse_spec(dimension(), adam(), 0.1), budget_, 3);
  TALLY_EXPECT_OK(one->prepare_rows(keys));
  for (std::size_t i = keys.size(); i-- > 0;) TALLY_EXPECT_OK(other->prepare_rows({&keys[i], 1}));
  const auto values = read_all<float>(*one, keys);
  EXPECT_EQ(values, read_all<float>(*other, keys));
  EXPECT_EQ(one->elements(), 1000U);
  // Uniform in +-0.1: the values are in range and have the expected mean and variance.
  double sum = 0, squares = 0;
  for (const float value : values) {
    ASSERT_LE(std::abs(value), 0.1F);
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0, 0.01);
  EXPECT_NEAR(squares / count, 0.01 / 3, 0.0005);
  TableSpec seeded = sparse_spec(dimension(), adam(), 0.1);
  seeded.seed = 8;
  EXPECT_NE(values, read_all<float>(*made(seeded, budget_), keys));
}

TEST_P(SparseStorageOf, SeveralGradientsCountAsTheirMeanOverAllRows) {
  constexpr std::uint64_t kRows = 200;
  const double weights[] = {1, 0, 2, 1};
  Rng rng(5);
  const auto storage = made(sparse_spec(dimension(), adagrad()), budget_);
  const auto alone = made(sparse_spec(dimension(), adagrad()), budget_);
  for (int step = 0; step < 5; ++step) {
    std::vector<Keys> keys;
    std::vector<std::vector<float>> rows;
    std::map<std::uint64_t, std::vector<float>> mean;
    for (const double weight : weights) {
      keys.push_back(random_keys(rng.below(kRows), kRows, rng));
      rows.push_back(random_numbers<float>(keys.back().size() * dimension(), rng));
      for (std::size_t i = 0; weight != 0 && i < rows.back().size(); ++i) {
        auto& row = mean[keys.back()[i / dimension()]];
        row.resize(dimension());
        row[i % dimension()] += static_cast<float>(weight / 4) * rows.back()[i];
      }
    }
    std::vector<Gradient> gradients;
    for (std::size_t r = 0; r < 4; ++r)
      gradients.push_back(gradient_of(keys[r], rows[r], weights[r]));
    TALLY_EXPECT_OK(storage->apply(gradients, {.rate = 0.1}));
    Keys all;
    std::vector<float> means;
    for (const auto& [key, row] : mean) {
      all.push_back(key);
      means.insert(means.end(), row.begin(), row.end());
    }
    const Gradient single = gradient_of(all, means, 0.7);
    TALLY_EXPECT_OK(alone->apply({&single, 1}, {.rate = 0.1}));
    EXPECT_EQ(storage->elements(), alone->elements());
    EXPECT_EQ(read_all<float>(*storage, all), read_all<float>(*alone, all));
  }
}

TEST_P(SparseStorageOf, AddAndAssignDoWhatTheySay) {
  Rng rng(6);
  const Keys keys = random_keys(500, 1000, rng);
  const auto numbers = random_numbers<float>(keys.size() * dimension(), rng);
  const auto storage = made(sparse_spec(dimension(), adam(), 0.5), budget_);
  const auto before = read_all<float>(*storage, keys);
  TALLY_EXPECT_OK(storage->add(gradient_of(keys, numbers)));
  std::vector<float> expected(before);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += numbers[i];
  EXPECT_EQ(read_all<float>(*storage, keys), expected);
  // Assigning a row resets its step count and optimizer state.
  const Gradient pushed = gradient_of(keys, numbers);
  TALLY_EXPECT_OK(storage->apply({&pushed, 1}, {.rate = 0.1}));
  TALLY_EXPECT_OK(storage->assign(gradient_of(keys, numbers)));
  EXPECT_EQ(read_all<float>(*storage, keys), numbers);
  const auto fresh = made(sparse_spec(dimension(), adam(), 0.5), budget_);
  TALLY_EXPECT_OK(fresh->assign(gradient_of(keys, numbers)));
  EXPECT_EQ(storage->pieces(keys, false, kMaxPayloadBytes),
            fresh->pieces(keys, false, kMaxPayloadBytes));
}

TEST_P(SparseStorageOf, PiecesOfAnySizeGiveTheSameBits) {
  Rng rng(7);
  const Keys keys = random_keys(700, 1000, rng);
  const auto rows = random_numbers<float>(keys.size() * dimension(), rng);
  const TableSpec spec = sparse_spec(dimension(), adam(), 0.5);
  const auto from = made(spec, budget_);
  const Gradient pushed = gradient_of(keys, rows);
  for (int step = 0; step < 3; ++step) TALLY_EXPECT_OK(from->apply({&pushed, 1}, {.rate = 0.1}));
  for (const std::size_t max_bytes : {std::size_t{700}, std::size_t{10000}, kMaxPayloadBytes}) {
    const auto to = made(spec, budget_);
    for (const auto& piece : from->pieces({}, true, max_bytes)) {
      EXPECT_LE(piece.size(), max_bytes);
      TALLY_EXPECT_OK(to->take(piece));
    }
    EXPECT_EQ(to->elements(), from->elements());
    EXPECT_EQ(to->pieces(keys, false, kMaxPayloadBytes),
              from->pieces(keys, false, kMaxPayloadBytes));
    TALLY_EXPECT_OK(to->apply({&pushed, 1}, {.rate = 0.1}));
    const auto twin = made(spec, budget_);
    for (int step = 0; step < 4; ++step) TALLY_EXPECT_OK(twin->apply({&pushed, 1}, {.rate = 0.1}));
    EXPECT_EQ(read_all<float>(*to, keys), read_all<float>(*twin, keys));
  }
}

TEST_P(SparseStorageOf, PiecesOfSomeKeysHaveTheirRowsOnly) {
  Rng rng(8);
  const Keys keys = random_keys(300, 1000, rng);
  const TableSpec spec = sparse_spec(dimension(), sgd(), 0.5);
  const auto from = made(spec, budget_);
  TALLY_EXPECT_OK(from->prepare_rows(keys));
  Keys some(keys.begin(), keys.begin() + 100);
  some.push_back(12345);
  const auto to = made(spec, budget_);
  for (const auto& piece : from->pieces(some, false, 4096)) TALLY_EXPECT_OK(to->take(piece));
  EXPECT_EQ(to->elements(), 100U);
  // An empty selection also gives a piece.
  const auto none = from->pieces({}, false, 4096);
  ASSERT_EQ(none.size(), 1U);
  TALLY_EXPECT_OK(to->take(none[0]));
  EXPECT_EQ(to->elements(), 100U);
}

TEST_P(SparseStorageOf, SplitOverAnotherNumberOfPartsEachRowIsInItsPartOnce) {
  Rng rng(9);
  const Keys keys = random_keys(2000, 5000, rng);
  const TableSpec spec = sparse_spec(dimension(), adagrad(), 0.5);
  const auto from = made(spec, budget_);
  TALLY_EXPECT_OK(from->prepare_rows(keys));
  constexpr std::uint32_t kParts = 7;
  std::vector<std::unique_ptr<Storage>> parts;
  for (std::uint32_t part = 0; part < kParts; ++part) parts.push_back(made(spec, budget_, part));
  for (const auto& bytes : from->pieces({}, true, 30000)) {
    const auto piece = read_sparse_piece(bytes);
    ASSERT_TRUE(piece.has_value());
    const auto dealt = split(*piece, kParts);
    for (std::uint32_t part = 0; part < kParts; ++part)
      if (!dealt[part].empty()) TALLY_EXPECT_OK(parts[part]->take(dealt[part]));
  }
  std::uint64_t rows = 0;
  for (const auto& part : parts) {
    // The hash spreads the rows evenly over the parts.
    EXPECT_NEAR(static_cast<double>(part->elements()), 2000.0 / kParts, 80);
    rows += part->elements();
  }
  EXPECT_EQ(rows, 2000U);
  for (const std::uint64_t key : keys) {
    Storage& part = *parts[part_of_key(key, kParts)];
    EXPECT_EQ(part.pieces({&key, 1}, false, kMaxPayloadBytes),
              from->pieces({&key, 1}, false, kMaxPayloadBytes));
  }
}

TEST_P(SparseStorageOf, AtomicAdditionsFromManyThreadsAreAllThere) {
  constexpr int kThreads = 4, kRounds = 50;
  Rng rng(10);
  const Keys keys = random_keys(400, 1000, rng);
  const auto storage = made(sparse_spec(dimension()), budget_);
  TALLY_EXPECT_OK(storage->prepare_rows(keys));
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        const std::vector<float> rows(keys.size() * dimension(), static_cast<float>(thread + 1));
        for (int round = 0; round < kRounds; ++round)
          TALLY_CHECK(storage->add_atomically(gradient_of(keys, rows), 3).has_value());
      });
    }
  }
  const float expected = 3.0F * kRounds * (1 + 2 + 3 + 4);
  EXPECT_EQ(read_all<float>(*storage, keys),
            std::vector<float>(keys.size() * dimension(), expected));
}

TEST_P(SparseStorageOf, BytesMayLieAtAnyAddress) {
  Rng rng(11);
  const Keys keys = random_keys(200, 1000, rng);
  const auto numbers = random_numbers<float>(keys.size() * dimension(), rng);
  std::vector<std::byte> shifted(numbers.size() * sizeof(float) + 3);
  std::memcpy(shifted.data() + 3, numbers.data(), numbers.size() * sizeof(float));
  const Gradient odd{.keys = keys, .values = std::span(shifted).subspan(3)};
  const Gradient even = gradient_of(keys, numbers);
  const auto one = made(sparse_spec(dimension()), budget_);
  const auto other = made(sparse_spec(dimension()), budget_);
  const Gradient twice_odd[] = {odd, even}, twice_even[] = {even, even};
  TALLY_EXPECT_OK(one->apply({&odd, 1}, {.rate = 0.1}));
  TALLY_EXPECT_OK(one->apply(twice_odd, {.rate = 0.1}));
  TALLY_EXPECT_OK(one->add(odd));
  TALLY_EXPECT_OK(one->add_atomically(odd, 2));
  TALLY_EXPECT_OK(other->apply({&even, 1}, {.rate = 0.1}));
  TALLY_EXPECT_OK(other->apply(twice_even, {.rate = 0.1}));
  TALLY_EXPECT_OK(other->add(even));
  TALLY_EXPECT_OK(other->add_atomically(even, 2));
  EXPECT_EQ(read_all<float>(*one, keys), read_all<float>(*other, keys));
  TALLY_EXPECT_OK(one->assign(odd));
  EXPECT_EQ(read_all<float>(*one, keys), numbers);
}

TEST(SparseStorage, TheMemoryLimitIsNamedAndNothingChanges) {
  MemoryBudget budget(36 << 10);
  const auto storage = made(sparse_spec(2, adam()), budget, 5);
  Keys keys(1000);
  std::iota(keys.begin(), keys.end(), std::uint64_t{0});
  TALLY_EXPECT_OK(storage->prepare_rows(std::span(keys).first(500)));
  const auto before = storage->pieces({}, true, kMaxPayloadBytes);
  const std::uint64_t used = budget.used();
  const std::vector<float> rows(2000, 1);
  const Gradient pushed = gradient_of(keys, rows);
  const auto refused = storage->apply({&pushed, 1}, {.rate = 1});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  EXPECT_EQ(refused.error().message,
            "table 'rows' part 5: no memory for 500 more rows beside 500 in " +
                std::to_string(storage->bytes()) + " bytes: " + std::to_string(used) +
                " of 36864 bytes are in use");
  EXPECT_EQ(storage->pieces({}, true, kMaxPayloadBytes), before);
  std::vector<float> out(2000);
  EXPECT_EQ(storage->read(keys, std::as_writable_bytes(std::span(out))).error().code,
            ErrorCode::kExhausted);
  // Existing rows still accept updates.
  const Keys known(keys.begin(), keys.begin() + 500);
  const std::vector<float> some(1000, 1);
  const Gradient good = gradient_of(known, some);
  TALLY_EXPECT_OK(storage->apply({&good, 1}, {.rate = 1}));
  storage->clear();
  EXPECT_EQ(budget.used(), 0U);
  EXPECT_EQ(storage->elements(), 0U);
  TALLY_EXPECT_OK(storage->prepare_rows(known));
}

TEST(SparseStorage, WhatDoesNotFitIsRefusedAndNothingChanges) {
  MemoryBudget budget(0);
  const auto storage = made(sparse_spec(3, adam()), budget);
  const Keys keys{1, 2};
  const std::vector<float> few(5, 1), right(6, 1);
  const Gradient odd = gradient_of(keys, few);
  const Gradient whole = gradient_of(keys, right);
  EXPECT_EQ(storage->apply({&odd, 1}, {}).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(storage->add(odd).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(storage->assign(odd).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(storage->add_atomically(odd, 1).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(storage->add_atomically(whole, 1).error().code, ErrorCode::kInvalid);
  for (const double weight : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const Gradient bad = gradient_of(keys, right, weight);
    EXPECT_EQ(storage->apply({&bad, 1}, {}).error().code, ErrorCode::kInvalid);
  }
  Gradient compensated = whole;
  compensated.backup = bytes_view(right);
  EXPECT_EQ(storage->apply({&compensated, 1}, {.compensation = 1}).error().code,
            ErrorCode::kInvalid);
  std::vector<float> out(5);
  EXPECT_EQ(storage->read(keys, std::as_writable_bytes(std::span(out))).error().code,
            ErrorCode::kInvalid);
  EXPECT_EQ(storage->read_state(0, {}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(storage->write_state(0, {}).error().code, ErrorCode::kInvalid);
  storage->set_steps(7);
  EXPECT_EQ(storage->elements(), 0U);
}

TEST(SparseStorage, APieceOfAnotherTableIsCorrupt) {
  MemoryBudget budget(0);
  const auto storage = made(sparse_spec(3), budget);
  const auto others = {made(sparse_spec(4), budget), made(sparse_spec(3, adam()), budget),
                       made(dense_spec(DataType::kFloat32, 9), budget)};
  for (const auto& other : others) {
    const auto pieces = other->pieces({}, true, kMaxPayloadBytes);
    EXPECT_EQ(storage->take(pieces[0]).error().code, ErrorCode::kCorrupt);
  }
}

TEST(SparseStorage, WithoutWeightNothingChanges) {
  MemoryBudget budget(0);
  const auto storage = made(sparse_spec(1), budget);
  const Keys keys{1};
  const std::vector<float> rows{1};
  const Gradient nothing = gradient_of(keys, rows, 0);
  TALLY_EXPECT_OK(storage->apply({&nothing, 1}, {.rate = 1}));
  TALLY_EXPECT_OK(storage->apply({}, {.rate = 1}));
  EXPECT_EQ(storage->elements(), 0U);
}

}  // namespace
}  // namespace tally::server
