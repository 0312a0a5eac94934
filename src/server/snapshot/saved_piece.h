#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/storage/piece.h"
#include "server/storage/table_spec.h"
#include "tally/checkpoint.h"

namespace tally::server {

struct SnapshotPart {
  std::uint32_t part = 0;
  std::uint32_t parts = 1;  // of the table
  std::uint64_t version = 0;
};

// A piece of a part (Storage::pieces()) in a safetensors file. Each array of the piece is a tensor
// TABLE/PART.PIECE/ARRAY, for example rows/3.0/keys:
//   dense   values, the arrays of the optimizer by name, residual and mean_square if there are any
//   sparse  keys, steps, values, and the arrays of the optimizer; one row per key
// All else is in this struct, which the tensor TABLE/PART.PIECE has in encoded form.
struct SavedPiece {
  TableSpec spec;
  SnapshotPart part;
  std::uint32_t piece = 0;
  std::uint32_t pieces = 1;  // of the part
  std::array<std::byte, kPieceHeaderBytes> header{};
};
std::string name_of(const SavedPiece& piece);  // TABLE/PART.PIECE

// decode_saved_piece() is kCorrupt for bytes that encode() does not write.
std::vector<std::byte> encode(const SavedPiece& piece);
Result<SavedPiece> decode_saved_piece(std::span<const std::byte> bytes);

// The tensors of the arrays, in the order of the piece. kCorrupt if the header does not fit the
// spec.
Result<std::vector<checkpoint::TensorInfo>> tensors_of(const SavedPiece& piece);

// Rearranges the bytes of a sparse piece behind its header, whose tensors these are: from one row
// after the other to one tensor after the other, or back.
enum class Arrangement { kTensors, kRows };
std::vector<std::byte> rearranged(std::span<const checkpoint::TensorInfo> tensors,
                                  std::span<const std::byte> bytes, Arrangement to);

}  // namespace tally::server
