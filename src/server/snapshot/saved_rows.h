#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/memory_limit.h"
#include "server/snapshot/snapshot.h"
#include "server/storage/memory.h"
#include "server/storage/row_table.h"

namespace tally::server {

// The rows of one sparse table of a snapshot in memory, without their optimizer state, for programs
// that use a trained model. Threads: calls may overlap.
class SavedRows final {
 public:
  // Errors as SnapshotReader::visit_rows(); kExhausted if the rows do not fit into memory.
  static Result<std::unique_ptr<SavedRows>> read(const SnapshotReader& snapshot,
                                                 const std::string& table);

  std::uint32_t dimension() const { return shape_.dimension; }
  std::uint64_t size() const { return table_.size(); }
  // Writes the row of each key, in order. A key without a row gets the values with which a server
  // would create its row; it takes no memory here.
  void look_up(std::span<const std::uint64_t> keys, std::span<float> rows) const;
  // All keys with a row, ascending.
  std::vector<std::uint64_t> keys() const;

 private:
  explicit SavedRows(const TableSpec& spec);
  Result<void> add(std::span<const std::uint64_t> keys, std::span<const float> rows);

  const RowShape shape_;
  MemoryBudget budget_{usable_memory_bytes()};
  RowTable table_;
};

}  // namespace tally::server
