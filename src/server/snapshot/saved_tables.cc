#include "server/snapshot/saved_tables.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/errors.h"
#include "server/snapshot/row_snapshots.h"

namespace tally::server {
namespace {

using checkpoint::TensorInfo;

constexpr std::size_t kBatchBytes = std::size_t{1} << 20;
constexpr auto kMaxKey = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

const TensorInfo* tensor_in(const checkpoint::Reader& reader, const std::string& name) {
  const auto& tensors = reader.tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&name](const TensorInfo& info) { return info.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

}  // namespace

std::string tensor_name(const std::string& module, const char* tensor) {
  return module.empty() ? tensor : fmt::format("{}.{}", module, tensor);
}

Result<SavedTables> SavedTables::open(const checkpoint::Reader& reader, std::string prefix) {
  SavedTables tables(reader, std::move(prefix));
  if (row_snapshot_in(reader.state()).empty())
    tables.find_tensors();
  else
    TALLY_TRY(tables.open_snapshot());
  return tables;
}

Result<void> SavedTables::open_snapshot() {
  auto opened = SnapshotReader::open(row_snapshot_of(*reader_));
  if (!opened) return with_remedy(opened.error());
  snapshot_ = std::move(*opened);
  for (const std::string& table : snapshot_->tables()) {
    if (!table.starts_with(prefix_)) continue;
    TALLY_TRY(const TableSpec spec, snapshot_->spec_of(table));
    tables_.push_back({.name = table.substr(prefix_.size()), .dimension = spec.dimension});
  }
  return {};
}

Error SavedTables::with_remedy(Error error) const {
  const std::filesystem::path snapshot = row_snapshot_of(*reader_);
  error.message += fmt::format("; the rows of {} are in this snapshot of its servers: ",
                               reader_->path().string());
  error.message += error.code == ErrorCode::kSystem
                       ? fmt::format("copy it there, or to {}",
                                     (std::filesystem::absolute(reader_->path()).parent_path() /
                                      snapshot.parent_path().filename() / snapshot.filename())
                                         .lexically_normal()
                                         .string())
                       : std::string(
                             "copy the files of all servers into its folder, or name "
                             "another checkpoint");
  return error;
}

void SavedTables::find_tensors() {
  constexpr std::string_view kKeys = "keys";
  constexpr std::int64_t kMaxRowValues = 65536;  // as SparseEmbeddingOptions::dimension
  for (const TensorInfo& keys : reader_->tensors()) {
    if (!keys.name.ends_with(kKeys)) continue;
    std::string module = keys.name.substr(0, keys.name.size() - kKeys.size());
    if (!module.empty() && module.back() != '.') continue;
    if (!module.empty()) module.pop_back();
    const TensorInfo* const rows = tensor_in(*reader_, tensor_name(module, "weight"));
    if (rows == nullptr || keys.type != DataType::kInt64 || keys.shape.size() != 1) continue;
    // Other modules may have tensors of these names.
    if (rows->type != DataType::kFloat32 || rows->shape.size() != 2 ||
        rows->shape[0] != keys.shape[0] || rows->shape[1] < 1 || rows->shape[1] > kMaxRowValues)
      continue;
    tables_.push_back(
        {.name = std::move(module), .dimension = static_cast<std::uint32_t>(rows->shape[1])});
  }
}

const SavedTables::Table* SavedTables::find(const std::string& name) const {
  const auto found = std::find_if(tables_.begin(), tables_.end(),
                                  [&name](const Table& table) { return table.name == name; });
  return found == tables_.end() ? nullptr : &*found;
}

Result<void> SavedTables::visit(const std::string& name, const RowSink& each) const {
  TALLY_CHECK(find(name) != nullptr);
  if (!snapshot_) return visit_tensors(*find(name), each);
  auto visited = snapshot_->visit_rows(prefix_ + name, each);
  if (!visited && visited.error().code == ErrorCode::kCorrupt) return with_remedy(visited.error());
  return visited;
}

Result<void> SavedTables::visit_tensors(const Table& table, const RowSink& each) const {
  const std::string keys_name = tensor_name(table.name, "keys");
  const std::string rows_name = tensor_name(table.name, "weight");
  const auto rows = static_cast<std::uint64_t>(tensor_in(*reader_, keys_name)->shape[0]);
  const std::uint64_t most =
      std::max<std::uint64_t>(1, kBatchBytes / (table.dimension * sizeof(float)));
  std::vector<std::uint64_t> keys;
  std::vector<float> values;
  std::optional<std::uint64_t> last;
  for (std::uint64_t begin = 0; begin < rows; begin += keys.size()) {
    keys.resize(std::min(most, rows - begin));
    values.resize(keys.size() * table.dimension);
    TALLY_TRY(reader_->read(keys_name, begin, std::as_writable_bytes(std::span(keys))));
    for (const std::uint64_t key : keys) {
      if (key > kMaxKey || (last && key <= *last))
        return corrupt("{}: {} must be ascending, each key once, and not negative: found {}{}",
                       reader_->path().string(), keys_name, static_cast<std::int64_t>(key),
                       last ? fmt::format(" after {}", *last) : std::string());
      last = key;
    }
    TALLY_TRY(reader_->read(rows_name, begin * table.dimension,
                            std::as_writable_bytes(std::span(values))));
    TALLY_TRY(each(keys, values));
  }
  return {};
}

Result<std::unique_ptr<SavedRows>> SavedTables::load(const std::string& name) const {
  TALLY_CHECK(snapshot_);
  auto loaded = SavedRows::read(*snapshot_, prefix_ + name);
  if (!loaded && loaded.error().code == ErrorCode::kCorrupt) return with_remedy(loaded.error());
  return loaded;
}

Result<void> check_home_of_rows(const checkpoint::Reader& reader,
                                const std::vector<std::string>& embeddings, bool on_servers) {
  if (embeddings.empty()) return {};
  const bool were_on_servers = !row_snapshot_in(reader.state()).empty();
  if (were_on_servers && !on_servers)
    return make_error(
        ErrorCode::kMismatch,
        "{} has the rows of {} by key, in a snapshot of its servers, and home=group has tables of "
        "a fixed size: continue with home=server",
        reader.path().string(), fmt::join(embeddings, ", "));
  const auto is_tensor = [&reader](const std::string& name) {
    return tensor_in(reader, tensor_name(name, "weight")) != nullptr;
  };
  if (!were_on_servers && on_servers &&
      std::all_of(embeddings.begin(), embeddings.end(), is_tensor))
    return make_error(
        ErrorCode::kMismatch,
        "{} has the rows of {} as tables of a fixed size (home=group), from which no key can be "
        "found, and servers have rows by key: continue with home=group",
        reader.path().string(), fmt::join(embeddings, ", "));
  return {};
}

}  // namespace tally::server
