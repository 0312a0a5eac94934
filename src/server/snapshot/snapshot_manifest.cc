#include "server/snapshot/snapshot.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "kernel/crc32c/crc32c.h"
#include "wire/fields.h"

namespace tally::server {
namespace {

constexpr std::string_view kFormatLine = "tally snapshot 1\n";
constexpr std::string_view kPrefix = "server-";
constexpr std::string_view kSuffix = ".tally";
constexpr std::size_t kMaxSnapshotNameBytes = 100;

// Checks that all names are file names of servers, each once.
Result<void> check_files(std::span<const SnapshotFile> files) {
  if (files.empty() || files.size() > kMaxSnapshotFiles)
    return corrupt("a snapshot of {} files", files.size());
  std::vector<std::string_view> names;
  for (const SnapshotFile& file : files) {
    if (!is_snapshot_file(file.name)) return corrupt("no file of a server: '{}'", file.name);
    names.push_back(file.name);
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return corrupt("{} is there twice", *twice);
  return {};
}

}  // namespace

std::string snapshot_file_name(NodeId server) {
  return fmt::format("{}{}{}", kPrefix, server, kSuffix);
}

bool is_snapshot_file(std::string_view name) {
  if (!name.starts_with(kPrefix)) return false;
  NodeId server = 0;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), server);
  return snapshot_file_name(server) == name;
}

Result<void> check_snapshot_name(const std::string& name) {
  const bool known = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
  if (known && !name.empty() && name.size() <= kMaxSnapshotNameBytes && name.front() != '.' &&
      !name.ends_with(".part"))
    return {};
  return invalid(
      "'{}' is no name for a snapshot: 1 to {} letters, digits, '-', "
      "'_' and '.', which is not first; not with .part at its end",
      name.substr(0, 2 * kMaxSnapshotNameBytes), kMaxSnapshotNameBytes);
}

std::string to_text(std::span<const SnapshotFile> files) {
  std::string lines;
  for (const SnapshotFile& file : files)
    lines += fmt::format("file {} {} {:08x}\n", file.name, file.bytes, file.crc32c);
  return fmt::format("{}crc32c {:08x}\n{}", kFormatLine,
                     kernel::crc32c(std::as_bytes(std::span(lines))), lines);
}

Result<std::vector<SnapshotFile>> snapshot_files_from_text(std::string_view text) {
  if (!text.starts_with(kFormatLine)) return corrupt("not a manifest of a snapshot");
  std::istringstream in{std::string(text.substr(kFormatLine.size()))};
  std::string word;
  std::string checksum;
  in >> word >> checksum;
  std::vector<SnapshotFile> files;
  SnapshotFile file;
  while (in >> word >> file.name >> std::dec >> file.bytes >> std::hex >> file.crc32c) {
    if (files.size() == kMaxSnapshotFiles) return corrupt("more files than a snapshot can have");
    files.push_back(file);
  }
  // Comparing the canonical text checks the checksum and the form of lines and numbers.
  if (to_text(files) != text) return corrupt("damaged: its checksum is another one");
  TALLY_TRY(check_files(files));
  return files;
}

template <typename Fields>
void fields(Fields& f, wire::FieldsOf<Fields, SnapshotFile>& file) {
  f.text(file.name, kMaxSnapshotNameBytes);
  f.number(file.bytes);
  f.number(file.crc32c);
}

std::vector<std::byte> encode(std::span<const SnapshotFile> files) {
  wire::Writer out;
  out.u32(static_cast<std::uint32_t>(files.size()));
  for (const SnapshotFile& file : files) wire::write_fields(out, file);
  return out.take();
}

Result<std::vector<SnapshotFile>> decode_snapshot_files(std::span<const std::byte> bytes) {
  wire::Reader in(bytes);
  TALLY_TRY(const std::uint32_t count, in.u32());
  if (count > kMaxSnapshotFiles) return corrupt("a snapshot of {} files", count);
  std::vector<SnapshotFile> files;
  for (std::uint32_t i = 0; i < count; ++i) {
    TALLY_TRY(SnapshotFile file, wire::read_fields<SnapshotFile>(in));
    files.push_back(std::move(file));
  }
  TALLY_TRY(in.end());
  TALLY_TRY(check_files(files));
  return files;
}

}  // namespace tally::server
