#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "base/check.h"
#include "base/file_io.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "server/snapshot/snapshot.h"

namespace tally::server {
namespace {

namespace fs = std::filesystem;

fs::path part_folder(const fs::path& folder, const std::string& name) {
  return folder / (name + ".part");
}

Error taken(const fs::path& path) {
  return invalid("{}: there is a snapshot of this name", path.string());
}

// The files of servers in a folder.
std::vector<fs::path> server_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const std::string& name : names_in(folder))
    if (server_of_file(name)) files.push_back(folder / name);
  return files;
}

// Tries to remove all files, also after an error.
Result<void> remove_all(const std::vector<fs::path>& files) {
  Result<void> outcome;
  for (const fs::path& file : files) {
    std::error_code failed;
    fs::remove(file, failed);
    if (failed) outcome = system_error(file, "cannot be removed", failed.value());
  }
  return outcome;
}

Result<void> remove_files_of(NodeId server, const fs::path& aside) {
  std::vector<fs::path> own = server_files(aside);
  std::erase_if(own, [server](const fs::path& file) {
    return server_of_file(file.filename().string()) != server;
  });
  return remove_all(own);
}

// Removes the folder unless another server has a file in it.
void remove_if_empty(const fs::path& aside) {
  std::error_code stays;
  fs::remove(aside, stays);
}

// Writes a file and makes its folder. A server that shares the folder may remove the empty folder
// in between.
Result<SnapshotFile> write_in(const fs::path& aside, const std::string& name,
                              std::span<const checkpoint::TensorBytes> tensors) {
  constexpr int kMostAttempts = 16;
  for (int attempt = 1;; ++attempt) {
    std::error_code failed;
    fs::create_directories(aside, failed);
    if (failed) return system_error(aside, "cannot be made", failed.value());
    auto file = checkpoint::write_stored(aside / name, tensors);
    if (file.has_value() || fs::exists(aside, failed) || attempt == kMostAttempts) return file;
  }
}

// The name of the manifest until it is complete.
std::string draft_of(NodeId server) { return fmt::format("manifest-{}", server); }

Result<void> try_to_publish(const fs::path& aside, const fs::path& named, const std::string& draft,
                            const std::string& manifest, std::span<const SnapshotFile> files) {
  std::error_code ignored;
  fs::remove(aside / draft, ignored);
  TALLY_TRY(write_text(aside / draft, manifest));
  TALLY_TRY(rename_path(aside / draft, aside / checkpoint::kManifestFile));
  // A failed snapshot of this name may have left files of servers that are not in this one.
  std::vector<fs::path> strangers = server_files(aside);
  for (const SnapshotFile& file : files) std::erase(strangers, aside / file.name);
  (void)remove_all(strangers);
  TALLY_TRY(sync_folder(aside));
  TALLY_TRY(rename_path(aside, named));
  return sync_folder(named.parent_path());
}

// Collects the tensors of a file until it is large enough to be written.
class FileWriter final {
 public:
  FileWriter(fs::path aside, NodeId server, std::size_t file_bytes)
      : aside_(std::move(aside)), server_(server), file_bytes_(file_bytes) {}

  Result<void> add(const SavedPiece& piece, std::span<const std::byte> body) {
    TALLY_TRY(std::vector<checkpoint::TensorInfo> infos, tensors_of(piece));
    TALLY_TRY(checkpoint::check_tensors(infos));
    std::vector<std::byte>& memory = memory_.emplace_back(body.begin(), body.end());
    if (piece.spec.kind == TableKind::kSparse)
      memory = rearranged(infos, body, Arrangement::kTensors);
    const std::vector<std::byte> described = encode(piece);
    memory.insert(memory.end(), described.begin(), described.end());
    infos.push_back(
        {name_of(piece), DataType::kUInt8, {static_cast<std::int64_t>(described.size())}});
    std::span<const std::byte> rest = memory;
    for (const checkpoint::TensorInfo& info : infos) {
      tensors_.push_back({info, rest.first(checkpoint::tensor_bytes(info))});
      rest = rest.subspan(tensors_.back().bytes.size());
    }
    bytes_ += memory.size();
    return bytes_ >= file_bytes_ ? write() : Result<void>();
  }

  // At least one file.
  Result<std::vector<SnapshotFile>> finish() {
    if (!tensors_.empty() || files_.empty()) TALLY_TRY(write());
    TALLY_TRY(sync_folder(aside_));
    return files_;
  }

 private:
  Result<void> write() {
    TALLY_TRY(SnapshotFile file,
              write_in(aside_, snapshot_file_name(server_, files_.size()), tensors_));
    files_.push_back(std::move(file));
    tensors_.clear();
    memory_.clear();
    bytes_ = 0;
    return {};
  }

  const fs::path aside_;
  const NodeId server_;
  const std::size_t file_bytes_;
  std::vector<checkpoint::TensorBytes> tensors_;
  std::vector<std::vector<std::byte>> memory_;  // of tensors_
  std::size_t bytes_ = 0;                       // in memory_
  std::vector<SnapshotFile> files_;             // written
};

}  // namespace

Result<std::vector<SnapshotFile>> write_snapshot(
    const fs::path& folder, const std::string& name, NodeId server,
    const std::function<Result<void>(const PartSink&)>& parts, std::size_t file_bytes) {
  TALLY_TRY(check_snapshot_name(name));
  std::error_code failed;
  if (fs::exists(folder / name, failed)) return taken(folder / name);
  const fs::path aside = part_folder(folder, name);
  TALLY_TRY(remove_files_of(server, aside));  // of an earlier attempt
  FileWriter writer(aside, server, file_bytes);
  const auto added = parts([&](const TableSpec& spec, const SnapshotPart& part,
                               std::span<const std::vector<std::byte>> pieces) -> Result<void> {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      SavedPiece piece{.spec = spec,
                       .part = part,
                       .piece = static_cast<std::uint32_t>(i),
                       .pieces = static_cast<std::uint32_t>(pieces.size())};
      std::copy_n(pieces[i].begin(), kPieceHeaderBytes, piece.header.begin());
      TALLY_TRY(writer.add(piece, std::span(pieces[i]).subspan(kPieceHeaderBytes)));
    }
    return {};
  });
  auto files = added.has_value() ? writer.finish() : added.error();
  if (!files.has_value()) (void)drop_snapshot(folder, name, server);
  return files;
}

Result<fs::path> publish_snapshot(const fs::path& folder, const std::string& name, NodeId server,
                                  std::span<const SnapshotFile> files) {
  TALLY_TRY(check_snapshot_name(name));
  const fs::path named = folder / name;
  const std::vector<std::byte> text = encode(files);
  const std::string manifest(reinterpret_cast<const char*>(text.data()), text.size());
  const std::string draft = draft_of(server);
  const auto published = try_to_publish(part_folder(folder, name), named, draft, manifest, files);
  if (published.has_value()) return named;
  // A server that shares the folder may have published first, at any point of the above.
  const auto found = read_text(named / checkpoint::kManifestFile, checkpoint::kMaxManifestBytes);
  std::error_code ignored;
  if (!found.has_value()) return published.error();
  if (*found != manifest) return taken(named);
  fs::remove(named / draft, ignored);
  return named;
}

Result<void> drop_snapshot(const fs::path& folder, const std::string& name, NodeId server) {
  TALLY_TRY(check_snapshot_name(name));
  const fs::path aside = part_folder(folder, name);
  const auto removed = remove_files_of(server, aside);
  std::error_code ignored;
  fs::remove(aside / draft_of(server), ignored);
  if (server_files(aside).empty()) fs::remove(aside / checkpoint::kManifestFile, ignored);
  remove_if_empty(aside);
  return removed;
}

Result<void> remove_snapshot(const fs::path& snapshot) {
  // Without its manifest the folder is no snapshot any more.
  TALLY_TRY(remove_all({snapshot / checkpoint::kManifestFile}));
  TALLY_TRY(remove_all(server_files(snapshot)));
  remove_if_empty(snapshot);
  return {};
}

}  // namespace tally::server
