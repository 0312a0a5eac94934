#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "checkpoint/manifest.h"
#include "server/snapshot/snapshot.h"

namespace tally::server {
namespace {

constexpr std::string_view kFormat = "tally snapshot 2";
constexpr std::string_view kPrefix = "server-";
constexpr std::size_t kMaxSnapshotNameBytes = 100;

}  // namespace

std::string snapshot_file_name(NodeId server, std::size_t number) {
  return fmt::format("{}{}-{:05}.safetensors", kPrefix, server, number);
}

std::optional<NodeId> server_of_file(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  NodeId server = 0;
  std::size_t number = 0;
  const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, server);
  if (parsed.ptr != end) std::from_chars(parsed.ptr + 1, end, number);
  if (snapshot_file_name(server, number) != name) return std::nullopt;
  return server;
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

std::vector<std::byte> encode(std::span<const SnapshotFile> files) {
  const std::string text = checkpoint::file_list_text(kFormat, files);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Result<std::vector<SnapshotFile>> decode_snapshot_files(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  TALLY_TRY(auto files, checkpoint::file_list_from_text(text, kFormat));
  if (files.empty() || files.size() > kMaxSnapshotFiles)
    return corrupt("a snapshot of {} files", files.size());
  std::set<std::string_view> names;
  for (const SnapshotFile& file : files) {
    if (!server_of_file(file.name)) return corrupt("no file of a server: '{}'", file.name);
    if (!names.insert(file.name).second) return corrupt("{} is there twice", file.name);
  }
  return files;
}

}  // namespace tally::server
