#include "server/snapshot/saved_rows.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"

namespace tally::server {

SavedRows::SavedRows(const TableSpec& spec)
    : shape_{.dimension = spec.dimension, .seed = spec.seed, .scale = spec.initial_scale},
      table_(shape_, budget_) {}

Result<std::unique_ptr<SavedRows>> SavedRows::read(const SnapshotReader& snapshot,
                                                   const std::string& table) {
  TALLY_TRY(const TableSpec spec, snapshot.spec_of(table));
  std::unique_ptr<SavedRows> saved(new SavedRows(spec));
  TALLY_TRY(snapshot.visit_rows(
      table, [&saved](std::span<const std::uint64_t> keys, std::span<const float> rows) {
        return saved->add(keys, rows);
      }));
  return saved;
}

Result<void> SavedRows::add(std::span<const std::uint64_t> keys, std::span<const float> rows) {
  Row places[RowTable::kBatch];
  for (std::size_t begin = 0; begin < keys.size(); begin += RowTable::kBatch) {
    const auto batch = keys.subspan(begin, std::min(RowTable::kBatch, keys.size() - begin));
    if (!table_.make_room(batch))
      return make_error(ErrorCode::kExhausted, "no memory for more than {} rows: {}", table_.size(),
                        usage_text(budget_));
    table_.find_or_make(batch, places);
    for (std::size_t i = 0; i < batch.size(); ++i)
      std::copy_n(rows.data() + (begin + i) * shape_.dimension, shape_.dimension,
                  places[i].values());
  }
  return {};
}

void SavedRows::look_up(std::span<const std::uint64_t> keys, std::span<float> rows) const {
  TALLY_CHECK(rows.size() == keys.size() * shape_.dimension);
  Row places[RowTable::kBatch];
  float* to = rows.data();
  for (std::size_t begin = 0; begin < keys.size(); begin += RowTable::kBatch) {
    const auto batch = keys.subspan(begin, std::min(RowTable::kBatch, keys.size() - begin));
    table_.find(batch, places);
    for (std::size_t i = 0; i < batch.size(); ++i, to += shape_.dimension) {
      if (places[i].found())
        std::copy_n(places[i].values(), shape_.dimension, to);
      else
        write_initial_values(shape_, batch[i], to);
    }
  }
}

std::vector<std::uint64_t> SavedRows::keys() const {
  std::vector<std::uint64_t> keys;
  keys.reserve(table_.size());
  for (std::uint32_t row = 0; row < table_.size(); ++row) keys.push_back(table_.at(row).key());
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace tally::server
