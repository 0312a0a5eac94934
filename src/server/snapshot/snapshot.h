#pragma once
// Snapshots on disk, as safetensors files of src/checkpoint, in two rounds:
//   1. Write: each server writes FOLDER/NAME.part/server-ID-NUMBER.safetensors, one file or more,
//      with all parts that it is the primary of (write_snapshot()).
//   2. Publish, after all servers have written: each gets the list of all files, writes
//      manifest.json and renames the folder to FOLDER/NAME (publish_snapshot()). Servers may share
//      a folder or have one each.
// If a server fails, the others remove their files (drop_snapshot()). A NAME.part that remains
// because a server or the requesting worker died stays until the next snapshot of that name: a
// server that shares the folder may still write to it.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/stored_file.h"
#include "server/protocol/message.h"
#include "server/snapshot/saved_piece.h"
#include "server/storage/storage.h"

namespace tally::server {

// A file of a snapshot, as the manifest lists it: server-3-00000.safetensors.
using SnapshotFile = checkpoint::FileRecord;
// The text of a manifest, which servers and workers also send each other.
std::vector<std::byte> encode(std::span<const SnapshotFile> files);
// kCorrupt unless it is such a text of 1 to kMaxSnapshotFiles files of servers, each name once.
Result<std::vector<SnapshotFile>> decode_snapshot_files(std::span<const std::byte> bytes);

// kInvalid unless the name has 1 to 100 letters, digits, '-', '_' and '.', begins with no '.' and
// does not end with ".part".
Result<void> check_snapshot_name(const std::string& name);

// A server begins another file when a file has this many bytes.
inline constexpr std::size_t kSnapshotFileBytes = std::size_t{64} << 20;

// Takes a part of a table for a snapshot: all pieces of Storage::pieces().
using PartSink = std::function<Result<void>(const TableSpec& spec, const SnapshotPart& part,
                                            std::span<const std::vector<std::byte>> pieces)>;

// Writes the parts that `parts` passes to its argument, in one file of the server or several.
// Returns the files, which are on the disk then. After an error none of them remains: kInvalid if
// the name is taken, or if the name of a table is not UTF-8 or begins with "__"; kSystem with the
// path and the reason of the system; or an error of `parts`.
Result<std::vector<SnapshotFile>> write_snapshot(
    const std::filesystem::path& folder, const std::string& name, NodeId server,
    const std::function<Result<void>(const PartSink&)>& parts,
    std::size_t file_bytes = kSnapshotFileBytes);

// Writes the manifest and renames the folder; returns its path. Servers that share a folder may all
// call it: the later ones find it done. `server` is the caller, `files` are the files of all
// servers. kInvalid if the name is taken.
Result<std::filesystem::path> publish_snapshot(const std::filesystem::path& folder,
                                               const std::string& name, NodeId server,
                                               std::span<const SnapshotFile> files);

// Removes the server's files of a snapshot that was not published, and the folder if it is empty
// then. A published snapshot stays. No server may publish it any more. kInvalid for a wrong name,
// kSystem if a file stays.
Result<void> drop_snapshot(const std::filesystem::path& folder, const std::string& name,
                           NodeId server);

// Removes a published snapshot, or what an interrupted removal has left of one: the manifest, the
// files of servers, and then the folder if it is empty. Other files stay. kSystem, with the path,
// if a file cannot be removed; a snapshot that does not exist is no error.
Result<void> remove_snapshot(const std::filesystem::path& snapshot);

// Takes rows of a sparse table: distinct keys, and their values one row after the other.
using RowSink =
    std::function<Result<void>(std::span<const std::uint64_t> keys, std::span<const float> rows)>;

// Reads a published snapshot, by any number of servers. Threads: calls must not overlap.
class SnapshotReader final {
 public:
  // Checks the manifest, and size and checksum of every file in the folder; kCorrupt names the
  // damaged one. Files of other servers may be missing where each server has its own folder.
  // kInvalid for a snapshot of a version of Tally with another format.
  static Result<SnapshotReader> open(const std::filesystem::path& snapshot);

  // A part to fill, and the version that it had.
  struct Wanted {
    std::uint32_t part = 0;
    Storage* storage = nullptr;
    std::uint64_t version = 0;
  };
  // Fills parts of a table that now has `parts` parts. Dense parts do not change; rows of sparse
  // parts are redistributed by key if the number of parts has changed, and get the highest version
  // of all. With nothing changed: kMismatch if the snapshot has no such table, kCorrupt if a file
  // that is needed is missing.
  Result<void> restore(const TableSpec& spec, std::uint32_t parts, std::span<Wanted> wanted) const;

  // Whether restore() redistributes the rows of the table, from all its files. Errors as
  // restore().
  Result<bool> deals_anew(const TableSpec& spec, std::uint32_t parts) const;

  // Names of its tables, in order.
  std::vector<std::string> tables() const;

  // The spec of a table. kMismatch if the snapshot has no such table.
  Result<TableSpec> spec_of(const std::string& table) const;
  // Passes all rows of a sparse table to `each` without their optimizer state, in batches of a few
  // MiB. kMismatch if the snapshot has no such sparse table, kCorrupt if a file is missing; errors
  // of `each` end the visit.
  Result<void> visit_rows(const std::string& table, const RowSink& each) const;

 private:
  // A piece, and its tensors in a file: begin and end are offsets in the file.
  struct Entry {
    SavedPiece piece;
    std::string file;
    std::vector<checkpoint::Entry> tensors;
  };
  struct Table {
    TableSpec spec;
    std::uint32_t parts = 1;
    std::map<std::uint32_t, std::map<std::uint32_t, Entry>> entries = {};  // by part and piece
  };

  explicit SnapshotReader(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // An error that names the folder.
  template <typename... Args>
  Error wrong(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) const {
    return make_error(code, "{}: {}", folder_.string(),
                      fmt::format(text, std::forward<Args>(args)...));
  }
  Result<void> open_file(const std::string& name);
  Result<void> add(Entry entry);
  Result<const Table*> find(const std::string& name) const;
  Result<const Table*> find_alike(const TableSpec& spec) const;
  // kCorrupt if pieces of the part are in none of the files.
  Result<void> check_complete(const Table& table, std::uint32_t part) const;
  Result<std::vector<std::byte>> read_tensors(const Entry& entry,
                                              std::span<const checkpoint::Entry> tensors) const;
  Result<std::vector<std::byte>> read_piece(const Entry& entry) const;  // for Storage::take()

  std::filesystem::path folder_;
  std::vector<std::string> missing_;  // names of files that are not here
  std::map<std::string, Table> tables_;
};

inline constexpr std::size_t kMaxSnapshotFiles = 65536;

// server-3-00000.safetensors
std::string snapshot_file_name(NodeId server, std::size_t number);
// The server that writes a file of this name; none for other names.
std::optional<NodeId> server_of_file(std::string_view name);

// The path of the snapshot that was published last, for errors about lost parts. Threads: safe.
class NewestSnapshot {
 public:
  void set(std::string path) {
    const MutexLock lock(mutex_);
    path_ = std::move(path);
  }
  std::string path() const {
    const MutexLock lock(mutex_);
    return path_;
  }

 private:
  mutable Mutex mutex_;
  std::string path_ TALLY_GUARDED_BY(mutex_);
};

}  // namespace tally::server
