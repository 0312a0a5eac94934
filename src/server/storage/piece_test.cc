#include "server/storage/piece.h"

#include <gtest/gtest.h>

#include "server/protocol/message.h"
#include "server/storage/storage_test_support.h"

namespace tally::server {
namespace {

std::vector<std::byte> dense_piece() {
  MemoryBudget budget(0);
  return made(dense_spec(DataType::kFloat64, 10, adam()), budget)->pieces({}, true, 4096)[0];
}
std::vector<std::byte> sparse_piece() {
  MemoryBudget budget(0);
  const auto storage = made(sparse_spec(3, adagrad(), 1), budget);
  const std::uint64_t keys[] = {7, 8, 9};
  EXPECT_TRUE(storage->prepare_rows(keys).has_value());
  return storage->pieces({}, true, 4096)[0];
}

TEST(Piece, SaysWhatItHas) {
  const auto dense_bytes = dense_piece();
  const auto dense = read_dense_piece(dense_bytes);
  ASSERT_TRUE(dense.has_value());
  EXPECT_EQ(dense->type, DataType::kFloat64);
  EXPECT_EQ(dense->arrays, 3);
  EXPECT_EQ(dense->count, 10U);
  EXPECT_EQ(dense->values.size(), 3U * 10 * 8);
  const auto sparse_bytes = sparse_piece();
  const auto sparse = read_sparse_piece(sparse_bytes);
  ASSERT_TRUE(sparse.has_value());
  EXPECT_EQ(sparse->dimension, 3U);
  EXPECT_EQ(sparse->arrays, 2);
  EXPECT_EQ(sparse->rows, 3U);
  EXPECT_EQ(sparse->records.size(), 3 * record_bytes(3, 2));
}

TEST(Piece, OfAnyOtherLengthItIsCorrupt) {
  for (auto bytes : {dense_piece(), sparse_piece()}) {
    const std::size_t whole = bytes.size();
    bytes.resize(whole + 8);
    for (std::size_t length = 0; length <= bytes.size(); ++length) {
      if (length == whole) continue;
      const auto cut = std::span(bytes).first(length);
      ASSERT_FALSE(read_dense_piece(cut).has_value()) << length;
      ASSERT_FALSE(read_sparse_piece(cut).has_value()) << length;
    }
  }
}

TEST(Piece, AHeaderThatCannotBeIsCorrupt) {
  struct Case {
    std::size_t at;
    int value;
  };
  // The version, kind, arrays, type and count of a dense piece, and the dimension of a sparse one.
  for (const Case& c : {Case{0, 2}, {1, 1}, {2, 0}, {2, 9}, {3, 4}, {8, 11}, {11, 255}}) {
    auto bytes = dense_piece();
    bytes[c.at] = static_cast<std::byte>(c.value);
    const auto piece = read_dense_piece(bytes);
    ASSERT_FALSE(piece.has_value()) << c.at;
    EXPECT_EQ(piece.error().code, ErrorCode::kCorrupt);
  }
  for (const Case& c : {Case{0, 2}, {1, 0}, {2, 0}, {8, 4}, {12, 0}, {12, 4}, {14, 1}}) {
    auto bytes = sparse_piece();
    bytes[c.at] = static_cast<std::byte>(c.value);
    const auto piece = read_sparse_piece(bytes);
    ASSERT_FALSE(piece.has_value()) << c.at;
    EXPECT_EQ(piece.error().code, ErrorCode::kCorrupt);
  }
  // The mean square of compensation needs an array.
  MemoryBudget budget(0);
  auto bytes = made(dense_spec(DataType::kFloat32, 10), budget)->pieces({}, true, 4096)[0];
  bytes[4] = std::byte{1};
  EXPECT_FALSE(read_dense_piece(bytes).has_value());
}

}  // namespace
}  // namespace tally::server
