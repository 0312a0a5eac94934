#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "tally/checkpoint.h"
#include "tally/error.h"

// Snapshots of the rows that home=server keeps on servers. A checkpoint names the snapshot of its
// step, which lies in a folder beside it, or where servers of another job write theirs.
namespace tally::server {

// step-120-3f2a: the name of a snapshot. `number` tells it from others of the same step.
std::string row_snapshot_name(std::uint64_t step, std::uint64_t number);
bool is_row_snapshot_name(std::string_view name);

// The snapshot that the state of a checkpoint names, as the servers reported its path; empty: none.
std::filesystem::path row_snapshot_in(std::string_view state);
// The snapshot of a checkpoint, as an absolute path; empty: none. After checkpoints and snapshots
// were moved together, it is the one that lies beside the checkpoint now.
std::filesystem::path row_snapshot_of(const checkpoint::Reader& reader);

// Removes the snapshots of a training together with their checkpoints. Threads: one.
class RowSnapshotRetention final {
 public:
  // `checkpoints` is the folder of a checkpoint::Writer. The object is responsible for the
  // snapshots in `snapshots`, a folder of this training alone, and for those that add() names. A
  // checkpoint that was copied from another training may name a snapshot of that one, which stays.
  RowSnapshotRetention(std::filesystem::path checkpoints, const std::filesystem::path& snapshots);

  // The training has made this snapshot.
  void add(const std::filesystem::path& snapshot);
  // Removes the snapshots that no checkpoint in the folder names, except for `current`, whose
  // checkpoint is being written. Removes none if a checkpoint cannot be read. kSystem, with the
  // path, if a snapshot cannot be removed; the next call tries again.
  Result<void> remove_unused(const std::filesystem::path& current);

 private:
  const std::filesystem::path checkpoints_;
  std::map<std::string, std::filesystem::path> known_;  // by name
};

}  // namespace tally::server
