#include "server/storage/piece.h"
#include "server/protocol/message.h"

#include <cstring>

#include <fmt/format.h>

#include "base/check.h"
#include "server/storage/storage.h"
#include "wire/little_endian.h"

namespace tally::server {
namespace {

using wire::load;
using wire::store;

constexpr std::uint8_t kPieceVersion = 1;

// Offsets of the fields. Both kinds have the first four; unused bytes are zero.
constexpr std::size_t kPieceVersionAt = 0;
constexpr std::size_t kPieceKindAt = 1;
constexpr std::size_t kPieceArraysAt = 2;
constexpr std::size_t kPieceTypeAt = 3;
constexpr std::size_t kPieceMeanSquareAt = 4;
constexpr std::size_t kPieceCountAt = 8;       // dense: elements, sparse: rows
constexpr std::size_t kPieceDimensionAt = 12;  // sparse
constexpr std::size_t kPieceStepsAt = 16;      // dense
constexpr std::size_t kPieceFirstAt = 24;      // dense

constexpr std::uint8_t kMaxArrays = 4;

template <typename... Args>
Error corrupt_piece(fmt::format_string<Args...> text, Args&&... args) {
  return corrupt("piece of a part: {}", fmt::format(text, std::forward<Args>(args)...));
}

void store_common(std::span<std::byte> out, TableKind kind, std::uint8_t arrays, DataType type,
                  std::uint32_t count) {
  TALLY_CHECK(out.size() >= kPieceHeaderBytes);
  std::memset(out.data(), 0, kPieceHeaderBytes);
  store(out, kPieceVersionAt, kPieceVersion);
  store(out, kPieceKindAt, static_cast<std::uint8_t>(kind));
  store(out, kPieceArraysAt, arrays);
  store(out, kPieceTypeAt, static_cast<std::uint8_t>(type));
  store(out, kPieceCountAt, count);
}

Result<void> check_common(std::span<const std::byte> bytes, TableKind kind) {
  if (bytes.size() < kPieceHeaderBytes) return corrupt_piece("{} bytes", bytes.size());
  if (const auto version = load<std::uint8_t>(bytes, kPieceVersionAt); version != kPieceVersion)
    return corrupt_piece("of version {}, this is {}", version, kPieceVersion);
  if (load<std::uint8_t>(bytes, kPieceKindAt) != static_cast<std::uint8_t>(kind))
    return corrupt_piece("not of a {} part", kind == TableKind::kDense ? "dense" : "sparse");
  const auto arrays = load<std::uint8_t>(bytes, kPieceArraysAt);
  if (arrays < 1 || arrays > kMaxArrays) return corrupt_piece("{} arrays", arrays);
  return {};
}

Result<std::span<const std::byte>> behind_header(std::span<const std::byte> bytes,
                                                 std::uint64_t expected_bytes) {
  const auto rest = bytes.subspan(kPieceHeaderBytes);
  if (rest.size() != expected_bytes)
    return corrupt_piece("{} bytes, must be {}", rest.size(), expected_bytes);
  return rest;
}

}  // namespace

void write_header(const DensePiece& piece, std::span<std::byte> out) {
  store_common(out, TableKind::kDense, piece.arrays, piece.type, piece.count);
  store(out, kPieceMeanSquareAt, static_cast<std::uint8_t>(piece.has_mean_square));
  store(out, kPieceStepsAt, piece.steps);
  store(out, kPieceFirstAt, piece.first);
}

void write_header(const SparsePiece& piece, std::span<std::byte> out) {
  store_common(out, TableKind::kSparse, piece.arrays, DataType::kFloat32, piece.rows);
  store(out, kPieceDimensionAt, piece.dimension);
}

Result<DensePiece> read_dense_header(std::span<const std::byte> bytes) {
  TALLY_TRY(check_common(bytes, TableKind::kDense));
  DensePiece piece{.type = static_cast<DataType>(load<std::uint8_t>(bytes, kPieceTypeAt)),
                   .arrays = load<std::uint8_t>(bytes, kPieceArraysAt),
                   .has_mean_square = load<std::uint8_t>(bytes, kPieceMeanSquareAt) != 0,
                   .steps = load<std::uint64_t>(bytes, kPieceStepsAt),
                   .first = load<std::uint64_t>(bytes, kPieceFirstAt),
                   .count = load<std::uint32_t>(bytes, kPieceCountAt)};
  if (piece.type != DataType::kFloat32 && piece.type != DataType::kFloat64)
    return corrupt_piece("of an unknown type");
  if (piece.has_mean_square && piece.arrays < 2) return corrupt_piece("a mean square of nothing");
  return piece;
}

Result<DensePiece> read_dense_piece(std::span<const std::byte> bytes) {
  TALLY_TRY(DensePiece piece, read_dense_header(bytes));
  const std::uint64_t expected = std::uint64_t{piece.count} * piece.arrays * size_of(piece.type);
  TALLY_TRY(piece.values, behind_header(bytes, expected));
  return piece;
}

Result<SparsePiece> read_sparse_header(std::span<const std::byte> bytes) {
  TALLY_TRY(check_common(bytes, TableKind::kSparse));
  SparsePiece piece{.dimension = load<std::uint32_t>(bytes, kPieceDimensionAt),
                    .arrays = load<std::uint8_t>(bytes, kPieceArraysAt),
                    .rows = load<std::uint32_t>(bytes, kPieceCountAt)};
  if (piece.dimension < 1 || piece.dimension > 4096)
    return corrupt_piece("rows of {} values", piece.dimension);
  return piece;
}

Result<SparsePiece> read_sparse_piece(std::span<const std::byte> bytes) {
  TALLY_TRY(SparsePiece piece, read_sparse_header(bytes));
  const std::uint64_t expected =
      std::uint64_t{piece.rows} * record_bytes(piece.dimension, piece.arrays);
  TALLY_TRY(piece.records, behind_header(bytes, expected));
  return piece;
}

std::vector<std::vector<std::byte>> split(const SparsePiece& piece, std::uint32_t parts) {
  const std::size_t each = record_bytes(piece.dimension, piece.arrays);
  std::vector<std::vector<std::byte>> result(parts);
  for (std::uint32_t row = 0; row < piece.rows; ++row) {
    const auto record = piece.records.subspan(row * each, each);
    auto& out = result[part_of_key(load<std::uint64_t>(record, 0), parts)];
    if (out.empty()) out.resize(kPieceHeaderBytes);
    out.insert(out.end(), record.begin(), record.end());
  }
  for (auto& out : result) {
    if (out.empty()) continue;
    SparsePiece header = piece;
    header.rows = static_cast<std::uint32_t>((out.size() - kPieceHeaderBytes) / each);
    write_header(header, out);
  }
  return result;
}

}  // namespace tally::server
