#include "checkpoint/header_file.h"

#include <algorithm>
#include <span>
#include <string>

#include <fmt/format.h>

namespace tally::checkpoint {
namespace {

Error corrupt_header(const std::filesystem::path& path, const Error& error) {
  return {.code = ErrorCode::kCorrupt,
          .message = fmt::format("{}: {}", path.string(), error.message)};
}

}  // namespace

Result<OpenedHeader> read_header(const File& file, const std::filesystem::path& path) {
  TALLY_TRY(const std::uint64_t bytes, file.size());
  std::string first(std::min(bytes, kHeaderLengthBytes), '\0');
  TALLY_TRY(file.read_at(0, std::as_writable_bytes(std::span(first))));
  const auto length = header_length(first, bytes);
  if (!length.has_value()) return corrupt_header(path, length.error());
  std::string text(*length, '\0');
  TALLY_TRY(file.read_at(kHeaderLengthBytes, std::as_writable_bytes(std::span(text))));
  OpenedHeader header{.data_offset = kHeaderLengthBytes + *length};
  auto entries = parse_header(text, bytes - header.data_offset);
  if (!entries.has_value()) return corrupt_header(path, entries.error());
  header.entries = *std::move(entries);
  return header;
}

}  // namespace tally::checkpoint
