#pragma once
// Snapshots on disk, in two rounds:
//   1. Write: each server writes FOLDER/NAME.part/server-ID.tally with all parts that it is the
//      primary of (SnapshotWriter).
//   2. Publish, after all servers have written: each gets the list of all files, writes the
//      manifest and renames the folder to FOLDER/NAME (publish_snapshot()). Servers may share a
//      folder or have one each.
// If a server fails, the others remove their files (drop_snapshot()). A NAME.part that remains
// because a server or the requesting worker died stays until the next snapshot of that name: a
// server that shares the folder may still write to it.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_io.h"
#include "base/mutex.h"
#include "server/protocol/message.h"
#include "server/storage/storage.h"

namespace tally::server {

// A file of a snapshot, as the manifest lists it.
struct SnapshotFile {
  std::string name;  // server-3.tally
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;

  friend bool operator==(const SnapshotFile&, const SnapshotFile&) = default;
};
std::vector<std::byte> encode(std::span<const SnapshotFile> files);
// kCorrupt for bytes that encode() does not write: at most 4096 files, each name once.
Result<std::vector<SnapshotFile>> decode_snapshot_files(std::span<const std::byte> bytes);

// kInvalid unless the name has 1 to 100 letters, digits, '-', '_' and '.', begins with no '.' and
// does not end with ".part".
Result<void> check_snapshot_name(const std::string& name);

struct SnapshotPart {
  std::uint32_t part = 0;
  std::uint32_t parts = 1;  // of the table
  std::uint64_t version = 0;
};

// One server's file. The destructor removes a file that is not finished, and the folder if it is
// empty then. Errors are kSystem with the path and the reason of the system. Threads: calls must
// not overlap.
class SnapshotWriter final {
 public:
  // kInvalid if the name is taken.
  static Result<std::unique_ptr<SnapshotWriter>> begin(const std::filesystem::path& folder,
                                                       const std::string& name, NodeId server);
  ~SnapshotWriter();
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  // `pieces` are all pieces of Storage::pieces().
  Result<void> add(const TableSpec& spec, const SnapshotPart& part,
                   std::span<const std::vector<std::byte>> pieces);
  // On the disk when this returns.
  Result<SnapshotFile> finish();

 private:
  SnapshotWriter(std::filesystem::path path, std::string name, File file);
  Result<void> write(std::span<const std::byte> bytes);

  const std::filesystem::path path_;
  const std::string name_;
  const File file_;
  std::uint64_t bytes_ = 0;
  std::uint32_t crc32c_ = 0;
  bool finished_ = false;
};

// Writes the manifest and renames the folder; returns its path. Servers that share a folder may all
// call it: the later ones find it done. `server` is the caller, `files` are the files of all
// servers. kInvalid if the name is taken.
Result<std::filesystem::path> publish_snapshot(const std::filesystem::path& folder,
                                               const std::string& name, NodeId server,
                                               std::span<const SnapshotFile> files);

// Removes the server's file of a snapshot that was not published, and the folder if it is empty
// then. A published snapshot stays. No server may publish it any more. kInvalid for a wrong name,
// kSystem if the file stays.
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
  // A part in a file, and the extents of its pieces.
  struct Entry {
    TableSpec spec;
    SnapshotPart part;
    std::size_t file = 0;
    struct Extent {
      std::uint64_t offset = 0;
      std::uint32_t bytes = 0;
    };
    std::vector<Extent> pieces;
  };

  using Entries = std::map<std::uint32_t, const Entry*>;  // by part

  explicit SnapshotReader(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // An error that names the folder.
  template <typename... Args>
  Error wrong(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) const {
    return make_error(code, "{}: {}", folder_.string(),
                      fmt::format(text, std::forward<Args>(args)...));
  }
  Result<void> open_file(const SnapshotFile& expected);
  Result<void> index_file(std::size_t file, std::uint64_t bytes);
  Result<Entry> read_entry(std::size_t file, std::uint64_t& offset, std::uint64_t end) const;
  Result<Entries> entries_of(const TableSpec& spec) const;
  Error lacks(const TableSpec& spec, std::uint32_t part) const;
  // kCorrupt if a part of the table is in none of the files.
  Result<void> check_complete(const TableSpec& spec, const Entries& entries) const;
  Result<std::vector<std::byte>> read_piece(const Entry& entry, std::size_t piece) const;
  Result<void> take_part(const Entry& entry, Wanted& wanted) const;
  Result<void> deal(const Entry& entry, std::uint32_t parts, std::span<Wanted> wanted) const;

  std::filesystem::path folder_;
  std::vector<File> files_;
  std::vector<std::string> missing_;  // names of files that are not here
  std::vector<Entry> entries_;
};

inline constexpr const char* kSnapshotManifest = "manifest";
inline constexpr std::size_t kMaxSnapshotFiles = 4096;
inline constexpr std::size_t kMaxSnapshotManifestBytes = std::size_t{1} << 20;

// A server's file begins with this.
inline constexpr std::string_view kSnapshotMagic = "TLYSNAP1";
// Before each part, and after the last.
inline constexpr std::uint32_t kSnapshotPartMark = 0x54524150;
inline constexpr std::uint32_t kSnapshotEndMark = 0x21444E45;
// Limits of a part's description and of a piece.
inline constexpr std::uint32_t kMaxSnapshotHeadBytes = 8192;
inline constexpr std::uint32_t kMaxSnapshotPieceBytes = std::uint32_t{64} << 20;

// server-3.tally
std::string snapshot_file_name(NodeId server);
bool is_snapshot_file(std::string_view name);  // whether it is such a name

// The manifest: a line with the format, a line with the checksum of the rest, and a line with name,
// bytes and checksum of each file.
std::string to_text(std::span<const SnapshotFile> files);
// kCorrupt for text that to_text() does not write.
Result<std::vector<SnapshotFile>> snapshot_files_from_text(std::string_view text);

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
