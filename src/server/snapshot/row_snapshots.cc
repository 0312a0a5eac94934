#include "server/snapshot/row_snapshots.h"

#include <charconv>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/file_io.h"
#include "checkpoint/manifest.h"
#include "server/snapshot/snapshot.h"

namespace tally::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStart = "step-";

// An absolute path without a separator at its end.
fs::path absolute_of(const fs::path& path) {
  std::error_code failed;
  fs::path whole = fs::absolute(path, failed).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

}  // namespace

std::string row_snapshot_name(std::uint64_t step, std::uint64_t number) {
  return fmt::format("{}{}-{:x}", kStart, step, number);
}

bool is_row_snapshot_name(std::string_view name) {
  if (!name.starts_with(kStart)) return false;
  const char* const end = name.data() + name.size();
  std::uint64_t step = 0, number = 0;
  const auto parsed = std::from_chars(name.data() + kStart.size(), end, step);
  if (parsed.ptr != end) std::from_chars(parsed.ptr + 1, end, number, 16);
  return row_snapshot_name(step, number) == name;
}

fs::path row_snapshot_in(std::string_view state) {
  return checkpoint::text_in_state(state, "trainer", "snapshot");
}

fs::path row_snapshot_of(const checkpoint::Reader& reader) {
  const fs::path named = row_snapshot_in(reader.state());
  if (named.empty()) return {};
  const fs::path beside =
      absolute_of(reader.path()).parent_path() / named.parent_path().filename() / named.filename();
  std::error_code ignored;
  return fs::exists(beside / checkpoint::kManifestFile, ignored) ? beside : named;
}

RowSnapshotRetention::RowSnapshotRetention(fs::path checkpoints, const fs::path& snapshots)
    : checkpoints_(std::move(checkpoints)) {
  for (const std::string& name : names_in(snapshots)) add(snapshots / name);
}

void RowSnapshotRetention::add(const fs::path& snapshot) {
  const std::string name = snapshot.filename().string();
  if (is_row_snapshot_name(name)) known_[name] = snapshot;
}

Result<void> RowSnapshotRetention::remove_unused(const fs::path& current) {
  std::map<std::string, fs::path> unused = known_;
  unused.erase(current.filename().string());
  for (const std::string& name : names_in(checkpoints_)) {
    // Checkpoints of abandoned runs are kept as old-step-...
    if (!name.starts_with(kStart) && !name.starts_with("old-step-")) continue;
    const fs::path path = checkpoints_ / name;
    const auto reader = checkpoint::Reader::open(path);
    // The writer may remove an old checkpoint meanwhile; a damaged one keeps every snapshot.
    std::error_code ignored;
    if (!reader && !fs::exists(path, ignored)) continue;
    if (!reader) return {};
    unused.erase(row_snapshot_in((*reader)->state()).filename().string());
  }
  for (const auto& [name, path] : unused) {
    TALLY_TRY(remove_snapshot(path));
    known_.erase(name);
  }
  return {};
}

}  // namespace tally::server
