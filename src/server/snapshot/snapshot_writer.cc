#include <system_error>

#include <fmt/format.h>

#include "base/check.h"
#include "kernel/crc32c/crc32c.h"
#include "server/snapshot/snapshot.h"
#include "wire/bytes.h"

namespace tally::server {
namespace {

namespace fs = std::filesystem;

fs::path part_folder(const fs::path& folder, const std::string& name) {
  return folder / (name + ".part");
}

Error taken(const fs::path& path) {
  return invalid("{}: there is a snapshot of this name", path.string());
}

// Removes files of a failed snapshot of the same name by servers that are not in this one.
void remove_strangers(const fs::path& aside, std::span<const SnapshotFile> files) {
  std::error_code ignored;
  for (fs::directory_iterator at(aside, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    bool known = !name.ends_with(".tally");
    for (const SnapshotFile& file : files) known = known || file.name == name;
    std::error_code stays;
    if (!known) fs::remove(at->path(), stays);
  }
}

// Removes the folder unless another server has a file in it.
void remove_if_empty(const fs::path& aside) {
  std::error_code stays;
  fs::remove(aside, stays);
}

// Creates a file and its folder. A server that shares the folder may remove the empty folder in
// between.
Result<File> create_in(const fs::path& aside, const std::string& name) {
  constexpr int kMostAttempts = 16;
  for (int attempt = 1;; ++attempt) {
    std::error_code failed;
    fs::create_directories(aside, failed);
    if (failed) return system_error(aside, "cannot be made", failed.value());
    fs::remove(aside / name, failed);
    auto file = File::create(aside / name);
    if (file.has_value() || fs::exists(aside, failed) || attempt == kMostAttempts) return file;
  }
}

// The name of the manifest until it is complete.
std::string draft_of(NodeId server) { return fmt::format("{}-{}", kSnapshotManifest, server); }

bool has_files(const fs::path& aside) {
  std::error_code failed;
  for (fs::directory_iterator at(aside, failed), end; !failed && at != end; at.increment(failed))
    if (at->path().extension() == ".tally") return true;
  return false;
}

Result<void> rename_to(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::rename(from, to, failed);
  if (failed) return system_error(from, "cannot be renamed", failed.value());
  return {};
}

Result<void> try_to_publish(const fs::path& aside, const fs::path& named, const std::string& draft,
                            const std::string& manifest, std::span<const SnapshotFile> files) {
  std::error_code ignored;
  fs::remove(aside / draft, ignored);
  TALLY_TRY(write_text(aside / draft, manifest));
  TALLY_TRY(rename_to(aside / draft, aside / kSnapshotManifest));
  remove_strangers(aside, files);
  TALLY_TRY(sync_folder(aside));
  TALLY_TRY(rename_to(aside, named));
  return sync_folder(named.parent_path());
}

}  // namespace

SnapshotWriter::SnapshotWriter(fs::path path, std::string name, File file)
    : path_(std::move(path)), name_(std::move(name)), file_(std::move(file)) {}

SnapshotWriter::~SnapshotWriter() {
  std::error_code ignored;
  if (finished_) return;
  fs::remove(path_, ignored);
  remove_if_empty(path_.parent_path());
}

Result<std::unique_ptr<SnapshotWriter>> SnapshotWriter::begin(const fs::path& folder,
                                                              const std::string& name,
                                                              NodeId server) {
  TALLY_TRY(check_snapshot_name(name));
  std::error_code failed;
  if (fs::exists(folder / name, failed)) return taken(folder / name);
  const fs::path aside = part_folder(folder, name);
  const std::string file_name = snapshot_file_name(server);
  TALLY_TRY(File file, create_in(aside, file_name));
  std::unique_ptr<SnapshotWriter> writer(
      new SnapshotWriter(aside / file_name, file_name, std::move(file)));
  TALLY_TRY(writer->write(std::as_bytes(std::span(kSnapshotMagic))));
  return writer;
}

Result<void> SnapshotWriter::write(std::span<const std::byte> bytes) {
  TALLY_TRY(file_.write_at(bytes_, bytes));
  bytes_ += bytes.size();
  crc32c_ = kernel::crc32c(bytes, crc32c_);
  return {};
}

Result<void> SnapshotWriter::add(const TableSpec& spec, const SnapshotPart& part,
                                 std::span<const std::vector<std::byte>> pieces) {
  TALLY_CHECK(!finished_ && part.part < part.parts);
  const std::vector<std::byte> described = encode(spec);
  wire::Writer head;
  head.u32(part.part);
  head.u32(part.parts);
  head.u64(part.version);
  head.u32(static_cast<std::uint32_t>(pieces.size()));
  head.bytes(described);
  wire::Writer begin;
  begin.u32(kSnapshotPartMark);
  begin.u32(static_cast<std::uint32_t>(head.view().size()));
  begin.bytes(head.view());
  TALLY_TRY(write(begin.view()));
  for (const std::vector<std::byte>& piece : pieces) {
    TALLY_CHECK(piece.size() <= kMaxSnapshotPieceBytes);
    wire::Writer length;
    length.u32(static_cast<std::uint32_t>(piece.size()));
    TALLY_TRY(write(length.view()));
    TALLY_TRY(write(piece));
  }
  return {};
}

Result<SnapshotFile> SnapshotWriter::finish() {
  TALLY_CHECK(!finished_);
  wire::Writer end;
  end.u32(kSnapshotEndMark);
  TALLY_TRY(write(end.view()));
  TALLY_TRY(file_.sync());
  TALLY_TRY(sync_folder(path_.parent_path()));
  finished_ = true;
  return SnapshotFile{.name = name_, .bytes = bytes_, .crc32c = crc32c_};
}

Result<fs::path> publish_snapshot(const fs::path& folder, const std::string& name, NodeId server,
                                  std::span<const SnapshotFile> files) {
  TALLY_TRY(check_snapshot_name(name));
  const fs::path named = folder / name;
  const std::string manifest = to_text(files);
  const std::string draft = draft_of(server);
  const auto published = try_to_publish(part_folder(folder, name), named, draft, manifest, files);
  if (published.has_value()) return named;
  // A server that shares the folder may have published first, at any point of the above.
  const auto found = read_text(named / kSnapshotManifest, kMaxSnapshotManifestBytes);
  std::error_code ignored;
  if (!found.has_value()) return published.error();
  if (*found != manifest) return taken(named);
  fs::remove(named / draft, ignored);
  return named;
}

Result<void> drop_snapshot(const fs::path& folder, const std::string& name, NodeId server) {
  TALLY_TRY(check_snapshot_name(name));
  const fs::path aside = part_folder(folder, name);
  const fs::path file = aside / snapshot_file_name(server);
  std::error_code failed;
  std::error_code ignored;
  fs::remove(file, failed);
  fs::remove(aside / draft_of(server), ignored);
  if (!has_files(aside)) fs::remove(aside / kSnapshotManifest, ignored);
  remove_if_empty(aside);
  if (failed) return system_error(file, "cannot be removed", failed.value());
  return {};
}

Result<void> remove_snapshot(const fs::path& snapshot) {
  std::error_code failed;
  // Without its manifest the folder is no snapshot any more.
  std::vector<fs::path> files = {snapshot / kSnapshotManifest};
  for (fs::directory_iterator at(snapshot, failed), end; !failed && at != end; at.increment(failed))
    if (is_snapshot_file(at->path().filename().string())) files.push_back(at->path());
  for (const fs::path& file : files) {
    fs::remove(file, failed);
    if (failed) return system_error(file, "cannot be removed", failed.value());
  }
  remove_if_empty(snapshot);
  return {};
}

}  // namespace tally::server
