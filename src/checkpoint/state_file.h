#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "checkpoint/manifest.h"
#include "checkpoint/snapshot.h"

// The file of one rank: its pieces of the optimizer's state, and its own state. Safetensors: a
// piece is a flat tensor named TENSOR@FIRST, the bytes of the rank's state are the tensor
// __rank_state__.
namespace tally::checkpoint {

inline constexpr const char* kRankState = "__rank_state__";

std::string piece_name(std::string_view tensor, std::uint64_t first);

struct PieceName {
  std::string tensor;
  std::uint64_t first = 0;
};
// kCorrupt if piece_name() cannot have made it.
Result<PieceName> parse_piece_name(const std::string& name);

// Writes and syncs a new file; what the manifest is to say of it.
Result<FileRecord> write_optimizer(const std::filesystem::path& path, const Snapshot& snapshot);

}  // namespace tally::checkpoint
