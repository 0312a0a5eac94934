#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "server/protocol/message.h"
#include "server/storage/storage.h"
#include "server/storage/storage_test_support.h"

namespace tally::server {
namespace {

TableSpec odd_dense() {
  TableSpec spec = dense_spec(DataType::kFloat64, 123456789, adamw({.beta2 = 0.95}));
  spec.plan = "update=ssp:3 stale=scale";
  spec.workers = 7;
  return spec;
}
TableSpec odd_sparse() {
  TableSpec spec = sparse_spec(17, ftrl({.rate = 1.0 / 3, .l1 = 0.1}), 0.1);
  spec.seed = 0xFEDCBA9876543210;
  return spec;
}

TableSpec coded() {
  TableSpec spec = dense_spec(DataType::kFloat32, 100'000);
  spec.codec = "topk:0.05,exact+rans";
  spec.columns = 250;
  spec.first_element = 1'000'000'000'000;
  return spec;
}

bool same(const TableSpec& a, const TableSpec& b) {
  return a.name == b.name && a.kind == b.kind && a.type == b.type && a.count == b.count &&
         a.dimension == b.dimension && a.optimizer == b.optimizer && a.plan == b.plan &&
         a.workers == b.workers && a.seed == b.seed && a.initial_scale == b.initial_scale &&
         a.codec == b.codec && a.columns == b.columns && a.first_element == b.first_element;
}

TEST(TableSpec, EncodedAndDecodedItIsTheSame) {
  for (const TableSpec& spec :
       {odd_dense(), odd_sparse(), dense_spec(DataType::kFloat32, 1), coded()}) {
    ASSERT_TRUE(check(spec).has_value());
    const auto again = decode_spec(encode(spec));
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_TRUE(same(*again, spec));
  }
}

TEST(TableSpec, CutShortOrWithMoreItIsCorrupt) {
  std::vector<std::byte> bytes = encode(odd_sparse());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto cut = decode_spec(std::span(bytes).first(length));
    ASSERT_FALSE(cut.has_value()) << length;
    EXPECT_EQ(cut.error().code, ErrorCode::kCorrupt);
  }
  bytes.push_back(std::byte{0});
  EXPECT_EQ(decode_spec(bytes).error().code, ErrorCode::kCorrupt);
}

TEST(TableSpec, BytesThatEncodeWouldNotMakeAreCorrupt) {
  for (const std::size_t at : {0, 1, 2}) {
    std::vector<std::byte> bytes = encode(odd_sparse());
    bytes[at] = std::byte{9};
    EXPECT_EQ(decode_spec(bytes).error().code, ErrorCode::kCorrupt) << at;
  }
  // A spec that check() refuses.
  TableSpec spec = odd_sparse();
  spec.initial_scale = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(decode_spec(encode(spec)).error().code, ErrorCode::kCorrupt);
}

// The same optimizer, spelled differently.
TEST(TableSpec, ATextThatEncodeWouldNotWriteIsCorrupt) {
  TableSpec spec = sparse_spec(1, sgd({.rate = 0.125}));
  std::vector<std::byte> bytes = encode(spec);
  const std::string text = "rate=0.125";
  const auto at = std::search(bytes.begin(), bytes.end(), std::as_bytes(std::span(text)).begin(),
                              std::as_bytes(std::span(text)).end());
  ASSERT_NE(at, bytes.end());
  const std::string other = "rate=125e-";
  std::memcpy(&*at, other.data(), other.size());
  EXPECT_FALSE(decode_spec(bytes).has_value());
  const std::string longer = "rate=.1250";
  std::memcpy(&*at, longer.data(), longer.size());
  const auto decoded = decode_spec(bytes);
  ASSERT_FALSE(decoded.has_value());
  EXPECT_EQ(decoded.error().message, "description of a table: not in canonical form");
}

TEST(TableSpec, OneCodecHasOneText) {
  TableSpec spec = coded();
  spec.codec = "int8:256";
  TableSpec other = coded();
  other.codec = "int8";
  EXPECT_EQ(encode(spec), encode(other));
}

TEST(TableSpec, WhatNoTableCanBeIsRefusedInWords) {
  struct Case {
    const char* message;
    TableSpec spec;
  };
  std::vector<Case> cases;
  const auto add = [&cases](const char* message, TableSpec spec, auto change) {
    change(spec);
    cases.push_back({message, std::move(spec)});
  };
  const TableSpec dense = dense_spec(DataType::kFloat32, 10);
  const TableSpec sparse = sparse_spec(4);
  add("a table's name has 0 bytes, must have 1 to 200", dense,
      [](TableSpec& s) { s.name.clear(); });
  add("a table's name has 201 bytes, must have 1 to 200", dense,
      [](TableSpec& s) { s.name.assign(201, 'x'); });
  add("table 'weights': rate of sgd is -1, must be a finite number from 0", dense,
      [](TableSpec& s) { s.optimizer.rate = -1; });
  add("table 'weights': clip_value is -1, must be 0, or above 0 with `measured`", dense,
      [](TableSpec& s) {
        s.measured = true;
        s.clip_value = -1;
      });
  add("table 'weights': clip_value is 1, must be 0, or above 0 with `measured`", dense,
      [](TableSpec& s) { s.clip_value = 1; });
  add("table 'weights': a plan of 1001 bytes, limit 1000", dense,
      [](TableSpec& s) { s.plan.assign(1001, ' '); });
  add("table 'weights': 0 workers, must be 1 to 65536", dense, [](TableSpec& s) { s.workers = 0; });
  add("table 'weights': neither dense nor sparse", dense,
      [](TableSpec& s) { s.kind = static_cast<TableKind>(7); });
  add("table 'weights': dense tables are of float32 or float64, not int32", dense,
      [](TableSpec& s) { s.type = DataType::kInt32; });
  add("table 'weights': 0 elements, must be 1 to 70368744177664", dense,
      [](TableSpec& s) { s.count = 0; });
  add("table 'weights': a dense table has neither dimension nor initial_scale", dense,
      [](TableSpec& s) { s.dimension = 1; });
  add("table 'rows': sparse tables are of float32, not float64", sparse,
      [](TableSpec& s) { s.type = DataType::kFloat64; });
  add("table 'rows': rows of 4097 values, must be 1 to 4096", sparse,
      [](TableSpec& s) { s.dimension = 4097; });
  add("table 'rows': a sparse table has no count: rows come when touched", sparse,
      [](TableSpec& s) { s.count = 1; });
  add("table 'rows': initial_scale is -1, must be a finite number from 0", sparse,
      [](TableSpec& s) { s.initial_scale = -1; });
  add("table 'weights': columns and first_element need a codec", dense,
      [](TableSpec& s) { s.columns = 1; });
  add("table 'weights': columns and first_element need a codec", dense,
      [](TableSpec& s) { s.first_element = 1; });
  add("table 'rows': a codec needs a dense table of float32", sparse,
      [](TableSpec& s) { s.codec = "bf16"; });
  add("table 'weights': a codec needs a dense table of float32", dense, [](TableSpec& s) {
    s.codec = "bf16";
    s.type = DataType::kFloat64;
  });
  add("table 'weights': a codec of 1001 bytes, limit 1000", dense,
      [](TableSpec& s) { s.codec.assign(1001, ' '); });
  add("table 'weights': codec auto: name a codec, the pushing worker decides between them", coded(),
      [](TableSpec& s) { s.codec = "auto"; });
  add("table 'weights': its first element is 70368744177665, must be 0 to 70368744177664", coded(),
      [](TableSpec& s) { s.first_element = 70368744177665; });
  MemoryBudget budget(0);
  for (const Case& c : cases) {
    const auto checked = check(c.spec);
    ASSERT_FALSE(checked.has_value()) << c.message;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(checked.error().message, c.message);
    EXPECT_EQ(make_storage(c.spec, 0, budget).error().code, ErrorCode::kInvalid);
  }
}

TEST(TableSpec, DensePartsCoverTheTable) {
  struct Case {
    DataType type;
    std::uint64_t count;
    std::uint32_t parts;
    std::size_t last;
  };
  const Case cases[] = {{DataType::kFloat32, 1, 1, 1},
                        {DataType::kFloat32, 65536, 1, 65536},
                        {DataType::kFloat32, 65537, 2, 1},
                        {DataType::kFloat64, 65537, 3, 1},
                        {DataType::kFloat64, 32768, 1, 32768}};
  MemoryBudget budget(0);
  for (const Case& c : cases) {
    const TableSpec spec = dense_spec(c.type, c.count);
    for (const std::uint32_t slots : {1U, 5U}) EXPECT_EQ(parts_of(spec, slots), c.parts);
    std::uint64_t sum = 0;
    for (std::uint32_t part = 0; part < c.parts; ++part) sum += elements_of(spec, part);
    EXPECT_EQ(sum, c.count);
    EXPECT_EQ(elements_of(spec, c.parts - 1), c.last);
    EXPECT_EQ(made(spec, budget, c.parts - 1)->elements(), c.last);
    EXPECT_EQ(make_storage(spec, c.parts, budget).error().code, ErrorCode::kInvalid);
  }
}

TEST(TableSpec, KeysAreDealtEvenlyWhateverTheyAreLike) {
  EXPECT_EQ(parts_of(sparse_spec(1), 3), 12U);
  for (const std::uint64_t step : {std::uint64_t{1}, std::uint64_t{1} << 40}) {
    for (const std::uint32_t parts : {1U, 4U, 12U}) {
      std::vector<int> counts(parts, 0);
      for (std::uint64_t i = 0; i < 12000; ++i) ++counts[part_of_key(i * step, parts)];
      for (const int count : counts)
        EXPECT_NEAR(count, 12000.0 / parts, 200) << step << " " << parts;
    }
  }
  // Clients and servers rely on these values being equal on every machine and in every version.
  // They were computed by a separate program.
  EXPECT_EQ(part_of_key(0, 1000), 480U);
  EXPECT_EQ(part_of_key(1, 1000), 535U);
}

TEST(MemoryBudget, TakesUpToItsLimitAndNoMore) {
  MemoryBudget budget(100);
  EXPECT_TRUE(budget.take(60));
  EXPECT_FALSE(budget.take(41));
  EXPECT_FALSE(budget.take(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_TRUE(budget.take(40));
  EXPECT_EQ(budget.used(), 100U);
  budget.give_back(100);
  EXPECT_EQ(budget.used(), 0U);
  MemoryBudget boundless(0);
  EXPECT_TRUE(boundless.take(std::uint64_t{1} << 50));
}

}  // namespace
}  // namespace tally::server
