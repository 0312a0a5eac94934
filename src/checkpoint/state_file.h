#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "checkpoint/stored_file.h"

// The optimizer file of one rank: its pieces of the optimizer state, and its rank state. In
// safetensors format: a piece is a flat tensor named TENSOR@FIRST; the rank state is the byte
// tensor __rank_state__.
namespace tally::checkpoint {

inline constexpr const char* kRankState = "__rank_state__";

std::string piece_name(std::string_view tensor, std::uint64_t first);

struct PieceName {
  std::string tensor;
  std::uint64_t first = 0;
};
// Parses the output of piece_name(); kCorrupt for any other text.
Result<PieceName> parse_piece_name(const std::string& name);

// Writes and syncs a new file; returns its record for the manifest.
Result<FileRecord> write_optimizer(const std::filesystem::path& path, const Content& content);

}  // namespace tally::checkpoint
