#include "recipes/word2vec/remote_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "recipes/word2vec/sgns.h"

namespace tally::word2vec {
namespace {

constexpr std::size_t kDimension = 20;

// Two tables in memory. An added row takes effect at the next flush(), as if it were in flight
// until then.
class MapService final : public RowService {
 public:
  using Key = std::pair<Table, std::uint64_t>;

  Result<void> pull(Table table, std::span<const std::uint64_t> keys,
                    std::span<float> rows) override {
    EXPECT_EQ(rows.size(), keys.size() * kDimension);
    EXPECT_EQ(std::set<std::uint64_t>(keys.begin(), keys.end()).size(), keys.size());
    for (std::size_t k = 0; k < keys.size(); ++k) {
      const std::vector<float>& row = row_of({table, keys[k]});
      std::copy(row.begin(), row.end(), rows.begin() + static_cast<std::ptrdiff_t>(k * kDimension));
    }
    return {};
  }
  Result<void> add(Table table, std::span<const std::uint64_t> keys,
                   std::span<const float> rows) override {
    if (fails) return Error{.code = ErrorCode::kPeerLost, .message = "gone"};
    pending_.push_back({table, keys, rows});
    return {};
  }
  Result<void> tick() override {
    ++ticks;
    return {};
  }
  Result<void> flush() override {
    for (const Pending& p : pending_)
      for (std::size_t k = 0; k < p.keys.size(); ++k)
        for (std::size_t i = 0; i < kDimension; ++i)
          row_of({p.table, p.keys[k]})[i] += p.rows[k * kDimension + i];
    pending_.clear();
    return {};
  }

  Result<void> finish() override { return flush(); }

  // Creates the row on first use.
  std::vector<float>& row_of(const Key& key) {
    std::vector<float>& row = rows_[key];
    for (std::size_t i = row.size(); i < kDimension; ++i)
      row.push_back(std::sin(static_cast<float>(key.second * 31 + i) +
                             (key.first == Table::kInputs ? 0.0F : 0.5F)) /
                    10);
    return row;
  }

  bool fails = false;
  int ticks = 0;

 private:
  struct Pending {
    Table table;
    std::span<const std::uint64_t> keys;
    std::span<const float> rows;
  };
  std::map<Key, std::vector<float>> rows_;
  std::vector<Pending> pending_;
};

Chunk some_chunk() {
  return {.centres = {{0, 3, 0, 2}, {3, 2, 2, 3}},
          .inputs = {7, 900, 7, 3, 12},
          .outputs = {900, 5, 12, 5, 7},
          .words = 2};
}

// Trains the same chunk on tables that are local.
std::vector<float> trained_here(std::size_t words, bool inputs) {
  MapService service;
  const std::size_t stride = kernel::skipgram_stride(kDimension);
  std::vector<float> tables(2 * words * stride, 0.0F);
  for (std::size_t word = 0; word < words; ++word) {
    const auto& in = service.row_of({RowService::Table::kInputs, word});
    const auto& out = service.row_of({RowService::Table::kOutputs, word});
    std::copy(in.begin(), in.end(), tables.begin() + static_cast<std::ptrdiff_t>(word * stride));
    std::copy(out.begin(), out.end(),
              tables.begin() + static_cast<std::ptrdiff_t>((words + word) * stride));
  }
  Sgns sgns;
  for (int i = 0; i < 3; ++i)
    sgns.train(
        some_chunk(),
        {.inputs = tables.data(), .outputs = tables.data() + words * stride, .stride = stride},
        0.1F);
  const auto begin = tables.begin() + static_cast<std::ptrdiff_t>(inputs ? 0 : words * stride);
  return {begin, begin + static_cast<std::ptrdiff_t>(words * stride)};
}

TEST(RemoteRows, TrainLikeRowsThatAreHere) {
  constexpr std::size_t kWords = 901;
  MapService service;
  RemoteRows rows(service, kDimension);
  Sgns sgns;
  for (int i = 0; i < 3; ++i) {
    Chunk chunk = some_chunk();
    const auto tables = rows.fetch(chunk);
    ASSERT_TRUE(tables.has_value());
    EXPECT_THAT(chunk.inputs, testing::ElementsAre(0, 1, 0, 2, 3));
    EXPECT_THAT(chunk.outputs, testing::ElementsAre(0, 1, 2, 1, 3));
    sgns.train(chunk, *tables, 0.1F);
    ASSERT_TRUE(rows.commit().has_value());
  }
  ASSERT_TRUE(service.flush().has_value());
  EXPECT_EQ(service.ticks, 3);
  const std::size_t stride = kernel::skipgram_stride(kDimension);
  for (const auto table : {RowService::Table::kInputs, RowService::Table::kOutputs}) {
    const auto expected = trained_here(kWords, table == RowService::Table::kInputs);
    for (const std::uint64_t word : {3, 5, 7, 12, 900, 100})
      for (std::size_t i = 0; i < kDimension; ++i)
        EXPECT_NEAR(service.row_of({table, word})[i], expected[word * stride + i], 1e-6) << word;
  }
}

TEST(RemoteRows, AnErrorOfTheServiceIsPassedOn) {
  MapService service;
  RemoteRows rows(service, kDimension);
  Chunk chunk = some_chunk();
  ASSERT_TRUE(rows.fetch(chunk).has_value());
  service.fails = true;
  EXPECT_EQ(rows.commit().error().code, ErrorCode::kPeerLost);
}

}  // namespace
}  // namespace tally::word2vec
