#include "adapters/torch/row_snapshots.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "checkpoint/manifest.h"
#include "server/snapshot/snapshot.h"

namespace tally::adapter {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kStart = "step-";

template <typename Predicate>
std::size_t count_while(std::string_view text, const Predicate& is) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is) - text.begin());
}

// An absolute path without a separator at its end.
fs::path absolute_of(const fs::path& path) {
  std::error_code failed;
  fs::path whole = fs::absolute(path, failed).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

// The checkpoints of a folder, those of abandoned runs included.
std::vector<fs::path> all_checkpoints(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(kStart) || name.starts_with("old-step-")) paths.push_back(at->path());
  }
  return paths;
}

}  // namespace

std::string row_snapshot_name(std::uint64_t step, std::uint64_t number) {
  return fmt::format("{}{}-{:x}", kStart, step, number);
}

bool is_row_snapshot_name(std::string_view name) {
  if (!name.starts_with(kStart)) return false;
  name.remove_prefix(kStart.size());
  const std::size_t digits =
      count_while(name, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (digits == 0 || digits == name.size() || name[digits] != '-') return false;
  name.remove_prefix(digits + 1);
  return !name.empty() && count_while(name, [](unsigned char c) {
                            return std::isxdigit(c) != 0 && std::isupper(c) == 0;
                          }) == name.size();
}

fs::path row_snapshot_in(std::string_view state) {
  const json whole = json::parse(state, nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object() || !whole.contains("trainer")) return {};
  const json& trainer = whole["trainer"];
  if (!trainer.is_object() || !trainer.contains("snapshot")) return {};
  return trainer["snapshot"].is_string() ? trainer["snapshot"].get<std::string>() : std::string();
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
  std::error_code failed;
  for (fs::directory_iterator at(snapshots, failed), end; !failed && at != end;
       at.increment(failed))
    add(at->path());
}

void RowSnapshotRetention::add(const fs::path& snapshot) {
  const std::string name = snapshot.filename().string();
  if (is_row_snapshot_name(name)) known_[name] = snapshot;
}

Result<void> RowSnapshotRetention::remove_unused(const fs::path& current) {
  std::map<std::string, fs::path> unused = known_;
  unused.erase(current.filename().string());
  for (const fs::path& path : all_checkpoints(checkpoints_)) {
    const auto reader = checkpoint::Reader::open(path);
    // The writer may remove an old checkpoint meanwhile; a damaged one keeps every snapshot.
    std::error_code ignored;
    if (!reader && !fs::exists(path, ignored)) continue;
    if (!reader) return {};
    unused.erase(row_snapshot_in((*reader)->state()).filename().string());
  }
  for (const auto& [name, path] : unused) {
    TALLY_TRY(server::remove_snapshot(path));
    known_.erase(name);
  }
  return {};
}

}  // namespace tally::adapter
