#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "policy/rules.h"
#include "server/storage/table_codec.h"
#include "tally/error.h"
#include "tally/server.h"

namespace tally::server {

class TablePart;
struct PartContext;

// The configuration of a table, shared by its parts: from its spec and the job's slots. A value.
struct TableConfig {
  TableId id = 0;
  TableSpec spec;
  policy::Rules rules;     // of its plan
  double share_power = 1;  // of its optimizer
  std::uint32_t parts = 0;
  std::uint32_t slots = 1;
  std::vector<std::byte> encoded;           // the spec
  std::shared_ptr<const TableCodec> codec;  // null: none; shared by copies of this value
  // An update adds the gradient times a factor and nothing else, so the order of pushes does not
  // matter.
  bool gradients_commute = false;
};

// kInvalid for a wrong spec or plan.
Result<TableConfig> make_table_config(TableId id, const TableSpec& spec, std::uint32_t slots);

// A table on one server, with an object for every part, also for those on other servers. The list
// of parts never changes.
class Table final {
 public:
  Table(TableConfig config, const PartContext& context);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  const TableConfig& config() const { return config_; }
  // Null if there is no such part.
  TablePart* part(std::uint32_t index) {
    return index < parts_.size() ? parts_[index].get() : nullptr;
  }
  const std::vector<std::unique_ptr<TablePart>>& parts() const { return parts_; }

 private:
  const TableConfig config_;
  std::vector<std::unique_ptr<TablePart>> parts_;
};

// The tables of a server by id. Tables are never removed. Threads: find() is safe and takes no
// lock; add() must not overlap with itself.
class TableSet final {
 public:
  Table* find(TableId id) const { return by_id_[id].load(std::memory_order_acquire); }
  // The id is not in use.
  void add(std::unique_ptr<Table> table);
  // In the order of add(), which must not run meanwhile.
  const std::vector<std::unique_ptr<Table>>& all() const { return owned_; }

 private:
  const std::unique_ptr<std::atomic<Table*>[]> by_id_ =
      std::make_unique<std::atomic<Table*>[]>(std::size_t{1} << 16);
  std::vector<std::unique_ptr<Table>> owned_;
};

}  // namespace tally::server
