#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "base/check.h"
#include "kernel/crc32c/crc32c.h"
#include "optimizer/update_rule.h"
#include "server/snapshot/snapshot.h"
#include "server/storage/piece.h"
#include "server/storage/row_table.h"
#include "wire/bytes.h"
#include "wire/little_endian.h"

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
  TALLY_TRY(const std::string text,
            read_text(snapshot / kSnapshotManifest, kMaxSnapshotManifestBytes));
  const auto files = snapshot_files_from_text(text);
  if (!files.has_value())
    return reader.wrong(ErrorCode::kCorrupt, "manifest: {}", files.error().message);
  for (const SnapshotFile& file : *files) TALLY_TRY(reader.open_file(file));
  return reader;
}

Result<void> SnapshotReader::open_file(const SnapshotFile& expected) {
  std::error_code failed;
  if (!fs::exists(folder_ / expected.name, failed)) {
    missing_.push_back(expected.name);
    return {};
  }
  TALLY_TRY(File file, File::open_to_read(folder_ / expected.name));
  TALLY_TRY(const std::uint64_t bytes, file.size());
  if (bytes != expected.bytes)
    return wrong(ErrorCode::kCorrupt, "{} has {} bytes, must have {}", expected.name, bytes,
                 expected.bytes);
  std::uint32_t crc32c = 0;
  TALLY_TRY(file.read_through(
      [&crc32c](std::span<const std::byte> some) { crc32c = kernel::crc32c(some, crc32c); }));
  if (crc32c != expected.crc32c)
    return wrong(ErrorCode::kCorrupt,
                 "{} is damaged: checksum (CRC32C) expected {:08x}, found {:08x}", expected.name,
                 expected.crc32c, crc32c);
  files_.push_back(std::move(file));
  const auto indexed = index_file(files_.size() - 1, bytes);
  if (!indexed.has_value())
    return wrong(ErrorCode::kCorrupt, "{}: {}", expected.name, indexed.error().message);
  return {};
}

Result<void> SnapshotReader::index_file(std::size_t file, std::uint64_t bytes) {
  const Error not_one = corrupt("not a file of a snapshot");
  std::string magic(kSnapshotMagic.size(), '\0');
  if (bytes < magic.size()) return not_one;
  TALLY_TRY(files_[file].read_at(0, std::as_writable_bytes(std::span(magic))));
  if (magic != kSnapshotMagic) return not_one;
  std::uint64_t offset = magic.size();
  for (;;) {
    std::byte mark[4];
    TALLY_TRY(files_[file].read_at(offset, mark));
    offset += sizeof mark;
    const auto found = wire::load<std::uint32_t>(mark, 0);
    if (found == kSnapshotEndMark && offset == bytes) return {};
    if (found != kSnapshotPartMark) return not_one;
    TALLY_TRY(Entry entry, read_entry(file, offset, bytes));
    entries_.push_back(std::move(entry));
  }
}

Result<SnapshotReader::Entry> SnapshotReader::read_entry(std::size_t file, std::uint64_t& offset,
                                                         std::uint64_t end) const {
  std::byte length[4];
  TALLY_TRY(files_[file].read_at(offset, length));
  const auto head_bytes = wire::load<std::uint32_t>(length, 0);
  if (head_bytes > kMaxSnapshotHeadBytes) return corrupt("a part with too long a description");
  std::vector<std::byte> head(head_bytes);
  TALLY_TRY(files_[file].read_at(offset + sizeof length, head));
  offset += sizeof length + head_bytes;
  wire::Reader in(head);
  Entry entry;
  entry.file = file;
  TALLY_TRY(entry.part.part, in.u32());
  TALLY_TRY(entry.part.parts, in.u32());
  TALLY_TRY(entry.part.version, in.u64());
  TALLY_TRY(const std::uint32_t pieces, in.u32());
  TALLY_TRY(const auto spec, in.bytes(in.remaining_bytes()));
  TALLY_TRY(entry.spec, decode_spec(spec));
  if (entry.part.part >= entry.part.parts) return corrupt("a part that its table does not have");
  for (std::uint32_t i = 0; i < pieces; ++i) {
    TALLY_TRY(files_[file].read_at(offset, length));
    const auto bytes = wire::load<std::uint32_t>(length, 0);
    offset += sizeof length;
    if (bytes > kMaxSnapshotPieceBytes || bytes > end - offset) return corrupt("too long a piece");
    entry.pieces.push_back({.offset = offset, .bytes = bytes});
    offset += bytes;
  }
  return entry;
}

std::vector<std::string> SnapshotReader::tables() const {
  std::set<std::string> names;
  for (const Entry& entry : entries_) names.insert(entry.spec.name);
  return {names.begin(), names.end()};
}

Error SnapshotReader::lacks(const TableSpec& spec, std::uint32_t part) const {
  return wrong(ErrorCode::kCorrupt,
               "part {} of table '{}' is in none of the files here; not here: {}", part, spec.name,
               missing_.empty() ? "none" : fmt::format("{}", fmt::join(missing_, ", ")));
}

Result<SnapshotReader::Entries> SnapshotReader::entries_of(const TableSpec& spec) const {
  Entries entries;
  for (const Entry& entry : entries_) {
    if (entry.spec.name != spec.name) continue;
    if (!alike(entry.spec, spec))
      return wrong(ErrorCode::kMismatch, "table '{}' was another one: {}; now {}", spec.name,
                   in_words(entry.spec), in_words(spec));
    if (!entries.emplace(entry.part.part, &entry).second ||
        entry.part.parts != entries.begin()->second->part.parts)
      return wrong(ErrorCode::kCorrupt, "parts of table '{}' do not belong together", spec.name);
  }
  if (entries.empty() && missing_.empty())
    return wrong(ErrorCode::kMismatch, "has no table '{}'", spec.name);
  if (entries.empty()) return lacks(spec, 0);
  return entries;
}

Result<void> SnapshotReader::check_complete(const TableSpec& spec, const Entries& entries) const {
  std::uint32_t next = 0;
  for (const auto& [part, entry] : entries) {
    if (part != next++) return lacks(spec, next - 1);
  }
  if (next != entries.begin()->second->part.parts) return lacks(spec, next);
  return {};
}

Result<TableSpec> SnapshotReader::spec_of(const std::string& table) const {
  for (const Entry& entry : entries_)
    if (entry.spec.name == table) return entry.spec;
  return entries_of({.name = table}).error();
}

Result<void> SnapshotReader::visit_rows(const std::string& table, const RowSink& each) const {
  TALLY_TRY(const TableSpec spec, spec_of(table));
  if (spec.kind != TableKind::kSparse)
    return wrong(ErrorCode::kMismatch, "table '{}' is not sparse", table);
  TALLY_TRY(const Entries entries, entries_of(spec));
  TALLY_TRY(check_complete(spec, entries));
  std::vector<std::uint64_t> keys;
  std::vector<float> rows;
  for (const auto& [part, entry] : entries) {
    for (std::size_t i = 0; i < entry->pieces.size(); ++i) {
      TALLY_TRY(const auto bytes, read_piece(*entry, i));
      TALLY_TRY(const SparsePiece piece, read_sparse_piece(bytes));
      if (piece.dimension != spec.dimension)
        return wrong(ErrorCode::kCorrupt, "table '{}' has rows of {} and of {} values", table,
                     spec.dimension, piece.dimension);
      keys.resize(piece.rows);
      rows.resize(std::size_t{piece.rows} * piece.dimension);
      const std::byte* record = piece.records.data();
      for (std::uint32_t r = 0; r < piece.rows; ++r) {
        std::memcpy(&keys[r], record, sizeof keys[r]);
        std::memcpy(&rows[std::size_t{r} * piece.dimension], record + Row::kValuesAt,
                    piece.dimension * sizeof(float));
        record += record_bytes(piece.dimension, piece.arrays);
      }
      TALLY_TRY(each(keys, rows));
    }
  }
  return {};
}

Result<bool> SnapshotReader::deals_anew(const TableSpec& spec, std::uint32_t parts) const {
  TALLY_TRY(const Entries entries, entries_of(spec));
  return entries.begin()->second->part.parts != parts;
}

Result<void> SnapshotReader::restore(const TableSpec& spec, std::uint32_t parts,
                                     std::span<Wanted> wanted) const {
  TALLY_TRY(const Entries entries, entries_of(spec));
  const std::uint32_t parts_then = entries.begin()->second->part.parts;
  const bool dealt_anew = parts_then != parts;
  if (dealt_anew && spec.kind == TableKind::kDense)
    return wrong(ErrorCode::kMismatch, "table '{}' had {} parts, now {}", spec.name, parts_then,
                 parts);
  for (const Wanted& want : wanted) {
    TALLY_CHECK(want.part < parts);
    if (!dealt_anew && entries.count(want.part) == 0) return lacks(spec, want.part);
  }
  if (dealt_anew) TALLY_TRY(check_complete(spec, entries));
  for (Wanted& want : wanted) {
    want.storage->clear();
    want.version = 0;
    if (!dealt_anew) TALLY_TRY(take_part(*entries.at(want.part), want));
  }
  for (const auto& [part, entry] : entries) {
    if (dealt_anew) TALLY_TRY(deal(*entry, parts, wanted));
  }
  return {};
}

Result<std::vector<std::byte>> SnapshotReader::read_piece(const Entry& entry,
                                                          std::size_t piece) const {
  std::vector<std::byte> bytes(entry.pieces[piece].bytes);
  TALLY_TRY(files_[entry.file].read_at(entry.pieces[piece].offset, bytes));
  return bytes;
}

Result<void> SnapshotReader::take_part(const Entry& entry, Wanted& wanted) const {
  wanted.version = entry.part.version;
  for (std::size_t i = 0; i < entry.pieces.size(); ++i) {
    TALLY_TRY(const auto bytes, read_piece(entry, i));
    TALLY_TRY(wanted.storage->take(bytes));
  }
  return {};
}

Result<void> SnapshotReader::deal(const Entry& entry, std::uint32_t parts,
                                  std::span<Wanted> wanted) const {
  for (std::size_t i = 0; i < entry.pieces.size(); ++i) {
    TALLY_TRY(const auto bytes, read_piece(entry, i));
    TALLY_TRY(const SparsePiece piece, read_sparse_piece(bytes));
    const auto dealt = split(piece, parts);
    for (Wanted& want : wanted) {
      if (!dealt[want.part].empty()) TALLY_TRY(want.storage->take(dealt[want.part]));
    }
  }
  for (Wanted& want : wanted) want.version = std::max(want.version, entry.part.version);
  return {};
}

}  // namespace tally::server
