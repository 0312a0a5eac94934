#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/file_io.h"
#include "checkpoint/manifest.h"
#include "optimizer/update_rule.h"
#include "server/snapshot/snapshot.h"

namespace tally::server {
namespace {

namespace fs = std::filesystem;

// Whether the values of one fit the other. Learning rates, plans and seeds may differ.
bool alike(const TableSpec& was, const TableSpec& is) {
  return was.kind == is.kind && was.type == is.type && was.count == is.count &&
         was.dimension == is.dimension &&
         optimizer::state_names(was.optimizer) == optimizer::state_names(is.optimizer);
}

std::string in_words(const TableSpec& spec) {
  if (spec.kind == TableKind::kSparse)
    return fmt::format("sparse, rows of {} with {}", spec.dimension, to_string(spec.optimizer));
  return fmt::format("dense, {} of {} with {}", spec.count, to_string(spec.type),
                     to_string(spec.optimizer));
}

}  // namespace

Result<SnapshotReader> SnapshotReader::open(const fs::path& snapshot) {
  SnapshotReader reader(snapshot);
  const fs::path path = snapshot / checkpoint::kManifestFile;
  std::error_code ignored;
  if (!fs::exists(path, ignored) && fs::exists(snapshot / "manifest", ignored))
    return reader.wrong(ErrorCode::kInvalid,
                        "an earlier version of Tally wrote this snapshot, in a format that this "
                        "version does not read: use that version, or another snapshot");
  TALLY_TRY(const std::string text, read_text(path, checkpoint::kMaxManifestBytes));
  const auto files = decode_snapshot_files(std::as_bytes(std::span(text)));
  if (!files.has_value()) return checkpoint::corrupt_file(path, files.error().message);
  for (const SnapshotFile& file : *files) {
    if (!fs::exists(snapshot / file.name, ignored)) {
      reader.missing_.push_back(file.name);
      continue;
    }
    TALLY_TRY(checkpoint::verify_file(snapshot, file));
    if (const auto opened = reader.open_file(file.name); !opened.has_value())
      return checkpoint::corrupt_file(snapshot / file.name, opened.error().message);
  }
  return reader;
}

Result<void> SnapshotReader::open_file(const std::string& name) {
  TALLY_TRY(const File file, File::open_to_read(folder_ / name));
  TALLY_TRY(const checkpoint::OpenedHeader header, checkpoint::read_header(file, folder_ / name));
  std::map<std::string_view, const checkpoint::Entry*> stored;
  for (const checkpoint::Entry& entry : header.entries) stored[entry.tensor.name] = &entry;
  for (const checkpoint::Entry& described : header.entries) {
    if (described.tensor.type != DataType::kUInt8) continue;
    std::vector<std::byte> bytes(described.end - described.begin);
    TALLY_TRY(file.read_at(header.data_offset + described.begin, bytes));
    TALLY_TRY(SavedPiece piece, decode_saved_piece(bytes));
    Entry entry{.piece = std::move(piece), .file = name, .tensors = {}};
    TALLY_TRY(const auto tensors, tensors_of(entry.piece));
    for (const checkpoint::TensorInfo& tensor : tensors) {
      const auto found = stored.find(tensor.name);
      if (found == stored.end() || found->second->tensor != tensor)
        return corrupt("{} does not describe {}", described.tensor.name, tensor.name);
      entry.tensors.push_back(*found->second);
      entry.tensors.back().begin += header.data_offset;
      entry.tensors.back().end += header.data_offset;
    }
    TALLY_TRY(add(std::move(entry)));
  }
  return {};
}

Result<void> SnapshotReader::add(Entry entry) {
  const SavedPiece& piece = entry.piece;
  const std::string name = piece.spec.name;
  Table& table =
      tables_.try_emplace(name, Table{.spec = piece.spec, .parts = piece.part.parts}).first->second;
  auto& pieces = table.entries[piece.part.part];
  const SavedPiece& first = pieces.empty() ? piece : pieces.begin()->second.piece;
  const bool fits = alike(piece.spec, table.spec) && piece.part.parts == table.parts &&
                    piece.part.version == first.part.version && piece.pieces == first.pieces;
  if (!fits || !pieces.try_emplace(piece.piece, std::move(entry)).second)
    return corrupt("parts of table '{}' do not belong together", name);
  return {};
}

std::vector<std::string> SnapshotReader::tables() const {
  std::vector<std::string> names;
  for (const auto& [name, table] : tables_) names.push_back(name);
  return names;
}

Result<const SnapshotReader::Table*> SnapshotReader::find(const std::string& name) const {
  if (const auto found = tables_.find(name); found != tables_.end()) return &found->second;
  if (missing_.empty()) return wrong(ErrorCode::kMismatch, "has no table '{}'", name);
  return check_complete({.spec = {.name = name}}, 0).error();
}

Result<const SnapshotReader::Table*> SnapshotReader::find_alike(const TableSpec& spec) const {
  TALLY_TRY(const Table* const table, find(spec.name));
  if (!alike(table->spec, spec))
    return wrong(ErrorCode::kMismatch, "table '{}' was another one: {}; now {}", spec.name,
                 in_words(table->spec), in_words(spec));
  return table;
}

Result<void> SnapshotReader::check_complete(const Table& table, std::uint32_t part) const {
  const auto found = table.entries.find(part);
  if (found != table.entries.end() &&
      found->second.size() == found->second.begin()->second.piece.pieces)
    return {};
  return wrong(ErrorCode::kCorrupt,
               "part {} of table '{}' is not complete in the files here; not here: {}", part,
               table.spec.name,
               missing_.empty() ? "none" : fmt::format("{}", fmt::join(missing_, ", ")));
}

Result<TableSpec> SnapshotReader::spec_of(const std::string& table) const {
  TALLY_TRY(const Table* const found, find(table));
  return found->spec;
}

Result<std::vector<std::byte>> SnapshotReader::read_tensors(
    const Entry& entry, std::span<const checkpoint::Entry> tensors) const {
  TALLY_TRY(const File file, File::open_to_read(folder_ / entry.file));
  std::vector<std::byte> bytes;
  for (const checkpoint::Entry& tensor : tensors) {
    const std::size_t at = bytes.size();
    bytes.resize(at + (tensor.end - tensor.begin));
    TALLY_TRY(file.read_at(tensor.begin, std::span(bytes).subspan(at)));
  }
  return bytes;
}

Result<std::vector<std::byte>> SnapshotReader::read_piece(const Entry& entry) const {
  TALLY_TRY(std::vector<std::byte> body, read_tensors(entry, entry.tensors));
  if (entry.piece.spec.kind == TableKind::kSparse) {
    TALLY_TRY(const auto tensors, tensors_of(entry.piece));
    body = rearranged(tensors, body, Arrangement::kRows);
  }
  body.insert(body.begin(), entry.piece.header.begin(), entry.piece.header.end());
  return body;
}

Result<void> SnapshotReader::visit_rows(const std::string& table, const RowSink& each) const {
  TALLY_TRY(const Table* const found, find(table));
  if (found->spec.kind != TableKind::kSparse)
    return wrong(ErrorCode::kMismatch, "table '{}' is not sparse", table);
  for (std::uint32_t part = 0; part < found->parts; ++part) TALLY_TRY(check_complete(*found, part));
  for (const auto& [part, pieces] : found->entries) {
    for (const auto& [number, entry] : pieces) {
      const auto tensors = std::span(entry.tensors);
      TALLY_TRY(const auto keys, read_tensors(entry, tensors.first(1)));
      TALLY_TRY(const auto rows, read_tensors(entry, tensors.subspan(2, 1)));  // after the steps
      std::vector<std::uint64_t> aligned_keys;
      std::vector<float> aligned_rows;
      TALLY_TRY(
          each(aligned(std::span(keys), aligned_keys), aligned(std::span(rows), aligned_rows)));
    }
  }
  return {};
}

Result<bool> SnapshotReader::deals_anew(const TableSpec& spec, std::uint32_t parts) const {
  TALLY_TRY(const Table* const table, find_alike(spec));
  return table->parts != parts;
}

Result<void> SnapshotReader::restore(const TableSpec& spec, std::uint32_t parts,
                                     std::span<Wanted> wanted) const {
  TALLY_TRY(const Table* const table, find_alike(spec));
  const bool dealt_anew = table->parts != parts;
  if (dealt_anew && spec.kind == TableKind::kDense)
    return wrong(ErrorCode::kMismatch, "table '{}' had {} parts, now {}", spec.name, table->parts,
                 parts);
  for (const Wanted& want : wanted) {
    TALLY_CHECK(want.part < parts);
    if (!dealt_anew) TALLY_TRY(check_complete(*table, want.part));
  }
  for (std::uint32_t part = 0; dealt_anew && part < table->parts; ++part)
    TALLY_TRY(check_complete(*table, part));
  for (Wanted& want : wanted) {
    want.storage->clear();
    want.version = 0;
    if (dealt_anew) continue;
    for (const auto& [number, entry] : table->entries.at(want.part)) {
      TALLY_TRY(const auto bytes, read_piece(entry));
      TALLY_TRY(want.storage->take(bytes));
      want.version = entry.piece.part.version;
    }
  }
  if (!dealt_anew) return {};
  for (const auto& [part, pieces] : table->entries) {
    for (const auto& [number, entry] : pieces) {
      TALLY_TRY(const auto bytes, read_piece(entry));
      TALLY_TRY(const SparsePiece piece, read_sparse_piece(bytes));
      const auto dealt = split(piece, parts);
      for (Wanted& want : wanted) {
        if (!dealt[want.part].empty()) TALLY_TRY(want.storage->take(dealt[want.part]));
        want.version = std::max(want.version, entry.piece.part.version);
      }
    }
  }
  return {};
}

}  // namespace tally::server
