#pragma once
// Snapshots on disk. While one is written it is FOLDER/NAME.part, with one file per server,
// server-ID.tally, which has all parts that the server is the primary of. When all servers have
// finished theirs, each is told of all files and publishes: the manifest is written and the folder
// gets its name. Servers may share a folder or have one each. If one of them fails, each of the
// others is told to drop what it has written. What lies in a NAME.part without that (a server or
// the asking worker has died) stays until a snapshot of this name is written: whether others who
// share the folder are still at it cannot be known.
//
// How a server uses it:
//   kSnapshot, first round   SnapshotWriter::begin, add() for each part that it is primary of,
//   finish(); answer: encode(file) kSnapshot, second round  all files in the payload:
//   publish_snapshot(); answer: the path or, where one failed     the name in the payload:
//   drop_snapshot() kRestore                 SnapshotReader::open, then restore() for each table
//   with all its parts of which the server has
//                            a copy, primary or not; then Round::set_version with what came out
#include <cstdint>
#include <filesystem>
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

// A file of a snapshot, as its manifest names it.
struct SnapshotFile {
  std::string name;  // server-3.tally
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;

  friend bool operator==(const SnapshotFile&, const SnapshotFile&) = default;
};
std::vector<std::byte> encode(std::span<const SnapshotFile> files);
// kCorrupt for anything that encode() would not make of files with such names, each once; at most
// 4096.
Result<std::vector<SnapshotFile>> decode_snapshot_files(std::span<const std::byte> bytes);

// kInvalid unless a snapshot may be called so: 1 to 100 letters, digits, '-', '_' and '.', not
// first; not with ".part" at its end.
Result<void> check_snapshot_name(const std::string& name);

struct SnapshotPart {
  std::uint32_t part = 0;
  std::uint32_t parts = 1;  // of the table
  std::uint64_t version = 0;
};

// One server's file. What is not finished is removed, and with it the folder if it is the last in
// there. Errors are kSystem with the path and the system's reason: no space left, no permission.
// Threads: calls must not overlap.
class SnapshotWriter final {
 public:
  // kInvalid if there is a snapshot of this name.
  static Result<std::unique_ptr<SnapshotWriter>> begin(const std::filesystem::path& folder,
                                                       const std::string& name, NodeId server);
  ~SnapshotWriter();
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  // What Storage::pieces() gave for everything.
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

// Writes the manifest and gives the folder its name; its path. Servers that share a folder may all
// do it: those who come later find it done. `server` is who does it, `files` are those of all.
// kInvalid if another snapshot has the name.
Result<std::filesystem::path> publish_snapshot(const std::filesystem::path& folder,
                                               const std::string& name, NodeId server,
                                               std::span<const SnapshotFile> files);

// Removes the server's file of a snapshot that was not published, and the folder with whoever is
// last. Nothing happens to a published one. To be called when no server publishes it any more.
// kInvalid for what cannot be a name, kSystem if the file stays.
Result<void> drop_snapshot(const std::filesystem::path& folder, const std::string& name,
                           NodeId server);

// Reads a published snapshot, by any number of servers. Threads: calls must not overlap.
class SnapshotReader final {
 public:
  // Checks the manifest, and size and checksum of every file that is in the folder; kCorrupt says
  // which is damaged. Files of other servers may be missing where each server has a folder of its
  // own.
  static Result<SnapshotReader> open(const std::filesystem::path& snapshot);

  // A part to fill, and the version that it had.
  struct Wanted {
    std::uint32_t part = 0;
    Storage* storage = nullptr;
    std::uint64_t version = 0;
  };
  // Fills parts of a table that now has `parts` of them: dense parts are what they were; rows of
  // sparse ones are dealt anew by their key if the number has changed, and then have the highest
  // version of all. kMismatch if the table was another one or is not there, kCorrupt if a part that
  // is needed lies in a file that is not there; nothing is changed then.
  Result<void> restore(const TableSpec& spec, std::uint32_t parts, std::span<Wanted> wanted) const;

  // Whether rows of the table are dealt anew: they come out of all its files then. kMismatch and
  // kCorrupt as restore().
  Result<bool> deals_anew(const TableSpec& spec, std::uint32_t parts) const;

  // Names of its tables, in order.
  std::vector<std::string> tables() const;

 private:
  // A part in a file: where its pieces are.
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
  Error wrong(ErrorCode code, std::string message) const;
  Result<void> open_file(const SnapshotFile& expected);
  Result<void> index_file(std::size_t file, std::uint64_t bytes);
  Result<Entry> read_entry(std::size_t file, std::uint64_t& offset, std::uint64_t end) const;
  Result<Entries> entries_of(const TableSpec& spec) const;
  Error lacks(const TableSpec& spec, std::uint32_t part) const;
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

// What a server's file begins with.
inline constexpr std::string_view kSnapshotMagic = "TLYSNAP1";
// What stands before each part, and after the last.
inline constexpr std::uint32_t kSnapshotPartMark = 0x54524150;
inline constexpr std::uint32_t kSnapshotEndMark = 0x21444E45;
// Of a part's description and of one of its pieces.
inline constexpr std::uint32_t kMaxSnapshotHeadBytes = 8192;
inline constexpr std::uint32_t kMaxSnapshotPieceBytes = std::uint32_t{64} << 20;

// server-3.tally
std::string snapshot_file_name(NodeId server);

// Text lines: the format, the checksum of all lines that follow, then name, bytes and checksum of
// each file.
std::string to_text(std::span<const SnapshotFile> files);
// kCorrupt unless to_text() can have written it.
Result<std::vector<SnapshotFile>> snapshot_files_from_text(std::string_view text);

// The snapshot that was written last, for whoever has lost something. Threads: safe.
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
