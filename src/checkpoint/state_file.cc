#include "checkpoint/state_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/errors.h"
#include "base/file_io.h"
#include "checkpoint/layout.h"
#include "checkpoint/safetensors.h"
#include "kernel/crc32c/crc32c.h"

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
  std::vector<TensorInfo> tensors;
  std::vector<std::span<const std::byte>> bytes;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const TensorInfo& whole = content.state_tensors[ranges[i].tensor];
    tensors.push_back({.name = piece_name(whole.name, ranges[i].first),
                       .type = whole.type,
                       .shape = {static_cast<std::int64_t>(ranges[i].count)}});
    bytes.push_back(content.optimizer[i].bytes);
  }
  const std::string& own = content.rank_state;
  tensors.push_back({.name = kRankState,
                     .type = DataType::kUInt8,
                     .shape = {static_cast<std::int64_t>(own.size())}});
  bytes.push_back(std::as_bytes(std::span(own)));

  const std::vector<Entry> entries = lay_out(tensors);
  TALLY_TRY(const std::string header, encode_header(entries, "tally"));
  std::vector<std::size_t> order(entries.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return entries[a].begin < entries[b].begin;
  });

  TALLY_TRY(const File file, File::create(path));
  FileRecord record{.name = path.filename().string()};
  const auto append = [&](std::span<const std::byte> part) -> Result<void> {
    TALLY_TRY(file.write_at(record.bytes, part));
    record.bytes += part.size();
    record.crc32c = kernel::crc32c(part, record.crc32c);
    return {};
  };
  TALLY_TRY(append(std::as_bytes(std::span(header))));
  for (const std::size_t index : order) TALLY_TRY(append(bytes[index]));
  TALLY_TRY(file.sync());
  return record;
}

}  // namespace tally::checkpoint
