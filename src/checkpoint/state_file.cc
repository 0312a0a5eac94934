#include "checkpoint/state_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/errors.h"
#include "checkpoint/layout.h"

namespace tally::checkpoint {

std::string piece_name(std::string_view tensor, std::uint64_t first) {
  return fmt::format("{}@{}", tensor, first);
}

Result<PieceName> parse_piece_name(const std::string& name) {
  const std::size_t at = name.rfind('@');
  PieceName piece{.tensor = name.substr(0, std::min(at, name.size()))};
  const char* const end = name.data() + name.size();
  const bool numbered = at != std::string::npos &&
                        std::from_chars(name.data() + at + 1, end, piece.first).ec == std::errc() &&
                        piece_name(piece.tensor, piece.first) == name;
  if (!numbered) return corrupt(fmt::format("{} is not the name of a piece", name));
  return piece;
}

Result<FileRecord> write_optimizer(const std::filesystem::path& path, const Content& content) {
  const std::vector<Range> ranges = ranges_of(content.state_tensors, content.optimizer);
  std::vector<TensorBytes> tensors;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const TensorInfo& whole = content.state_tensors[ranges[i].tensor];
    tensors.push_back({.info = {.name = piece_name(whole.name, ranges[i].first),
                                .type = whole.type,
                                .shape = {static_cast<std::int64_t>(ranges[i].count)}},
                       .bytes = content.optimizer[i].bytes});
  }
  const std::string& own = content.rank_state;
  tensors.push_back({.info = {.name = kRankState,
                              .type = DataType::kUInt8,
                              .shape = {static_cast<std::int64_t>(own.size())}},
                     .bytes = std::as_bytes(std::span(own))});
  return write_stored(path, tensors);
}

}  // namespace tally::checkpoint
