#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tally/error.h"
#include "tally/types.h"

// Layouts of Storage::pieces(), for records between servers and for snapshots. Little-endian.
namespace tally::server {

inline constexpr std::size_t kPieceHeaderBytes = 32;
// Upper bound of a piece in a record or a snapshot.
inline constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

// Elements [first, first + count) of a dense part: a header, then `arrays` times `count` values:
// the parameters, the optimizer state, and the mean square of adaptive compensation if there is
// one.
struct DensePiece {
  DataType type = DataType::kFloat32;
  std::uint8_t arrays = 1;
  bool has_mean_square = false;
  std::uint64_t steps = 0;
  std::uint64_t first = 0;
  std::uint32_t count = 0;
  std::span<const std::byte> values;  // after the header
};

// Rows of a sparse part: a header, then `rows` records of a u64 key, a u32 count of steps and
// `dimension` times `arrays` float32, the values first.
struct SparsePiece {
  std::uint32_t dimension = 1;
  std::uint8_t arrays = 1;
  std::uint32_t rows = 0;
  std::span<const std::byte> records;
};

constexpr std::size_t record_bytes(std::uint32_t dimension, std::uint8_t arrays) {
  return sizeof(std::uint64_t) + sizeof(std::uint32_t) +
         sizeof(float) * std::size_t{dimension} * arrays;
}

// Writes the header; the caller writes values or records after it.
void write_header(const DensePiece& piece, std::span<std::byte> out);
void write_header(const SparsePiece& piece, std::span<std::byte> out);

// The pieces without their values or records. kCorrupt unless version, kind, type and arrays are
// known.
Result<DensePiece> read_dense_header(std::span<const std::byte> bytes);
Result<SparsePiece> read_sparse_header(std::span<const std::byte> bytes);

// Views of `bytes`. kCorrupt unless version, kind and counts match the number of bytes.
Result<DensePiece> read_dense_piece(std::span<const std::byte> bytes);
Result<SparsePiece> read_sparse_piece(std::span<const std::byte> bytes);

// The rows as pieces of `parts` parts, by part_of_key(); empty for a part without rows.
std::vector<std::vector<std::byte>> split(const SparsePiece& piece, std::uint32_t parts);

}  // namespace tally::server
