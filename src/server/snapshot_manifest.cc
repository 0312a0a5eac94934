#include "server/snapshot_manifest.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "kernel/crc32c/crc32c.h"
#include "wire/bytes.h"

namespace tally::server {
namespace {

constexpr std::string_view kFormatLine = "tally snapshot 1\n";
constexpr std::string_view kPrefix = "server-";
constexpr std::string_view kSuffix = ".tally";
constexpr std::size_t kMaxNameBytes = 100;

Error corrupt(std::string message) {
  return {.code = ErrorCode::kCorrupt, .message = std::move(message)};
}

// The whole text as one number, without signs or spaces.
template <typename T>
bool read_number(std::string_view text, T& value, int base) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

bool is_file_name(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  if (name.size() <= kPrefix.size() + kSuffix.size()) return false;
  NodeId server = 0;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  return read_number(name, server, 10) && std::to_string(server) == name;
}

// Names that could be made, each once.
Result<void> check_files(std::span<const SnapshotFile> files) {
  if (files.empty() || files.size() > kMaxSnapshotFiles)
    return corrupt(fmt::format("a snapshot of {} files", files.size()));
  std::vector<std::string_view> names;
  for (const SnapshotFile& file : files) {
    if (!is_file_name(file.name))
      return corrupt(fmt::format("no file of a server: '{}'", file.name));
    names.push_back(file.name);
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return corrupt(fmt::format("{} is there twice", *twice));
  return {};
}

std::string lines_of(std::span<const SnapshotFile> files) {
  std::string lines;
  for (const SnapshotFile& file : files)
    lines += fmt::format("file {} {} {:08x}\n", file.name, file.bytes, file.crc32c);
  return lines;
}

// What follows `word` in the line that `text` begins with, which is taken off.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

Result<SnapshotFile> file_from(std::string_view line) {
  const Error wrong = corrupt(fmt::format("no line of a file: '{}'", line.substr(0, 200)));
  constexpr std::string_view kWord = "file ";
  if (!line.starts_with(kWord)) return wrong;
  line.remove_prefix(kWord.size());
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || last == first) return wrong;
  SnapshotFile file{.name = std::string(line.substr(0, first))};
  if (!read_number(line.substr(first + 1, last - first - 1), file.bytes, 10)) return wrong;
  if (!read_number(line.substr(last + 1), file.crc32c, 16)) return wrong;
  return file;
}

}  // namespace

std::string snapshot_file_name(NodeId server) {
  return fmt::format("{}{}{}", kPrefix, server, kSuffix);
}

Result<void> check_snapshot_name(const std::string& name) {
  const bool known = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
  if (known && !name.empty() && name.size() <= kMaxNameBytes && name.front() != '.' &&
      !name.ends_with(".part"))
    return {};
  return Error{
      .code = ErrorCode::kInvalid,
      .message = fmt::format("'{}' is no name for a snapshot: 1 to {} letters, digits, '-', "
                             "'_' and '.', which is not first; not with .part at its end",
                             name.substr(0, 2 * kMaxNameBytes), kMaxNameBytes)};
}

std::string to_text(std::span<const SnapshotFile> files) {
  const std::string lines = lines_of(files);
  return fmt::format("{}crc32c {:08x}\n{}", kFormatLine,
                     kernel::crc32c(std::as_bytes(std::span(lines))), lines);
}

Result<std::vector<SnapshotFile>> snapshot_files_from_text(std::string_view text) {
  const std::string_view whole = text;
  if (!text.starts_with(kFormatLine)) return corrupt("not a manifest of a snapshot");
  text.remove_prefix(kFormatLine.size());
  static_cast<void>(take_line(text));
  std::vector<SnapshotFile> files;
  while (!text.empty()) {
    if (files.size() == kMaxSnapshotFiles) return corrupt("more files than a snapshot can have");
    TALLY_TRY(SnapshotFile file, file_from(take_line(text)));
    files.push_back(std::move(file));
  }
  // Numbers may be written in several ways, and the checksum covers what was meant.
  if (to_text(files) != whole) return corrupt("damaged: its checksum is another one");
  TALLY_TRY(check_files(files));
  return files;
}

std::vector<std::byte> encode(std::span<const SnapshotFile> files) {
  wire::Writer out;
  out.u32(static_cast<std::uint32_t>(files.size()));
  for (const SnapshotFile& file : files) {
    out.string(file.name);
    out.u64(file.bytes);
    out.u32(file.crc32c);
  }
  return out.take();
}

Result<std::vector<SnapshotFile>> decode_snapshot_files(std::span<const std::byte> bytes) {
  wire::Reader in(bytes);
  TALLY_TRY(const std::uint32_t count, in.u32());
  if (count > kMaxSnapshotFiles) return corrupt(fmt::format("a snapshot of {} files", count));
  std::vector<SnapshotFile> files;
  for (std::uint32_t i = 0; i < count; ++i) {
    SnapshotFile file;
    TALLY_TRY(file.name, in.string(kMaxNameBytes));
    TALLY_TRY(file.bytes, in.u64());
    TALLY_TRY(file.crc32c, in.u32());
    files.push_back(std::move(file));
  }
  TALLY_TRY(in.end());
  TALLY_TRY(check_files(files));
  return files;
}

}  // namespace tally::server
