#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "policy/rules.h"
#include "server/storage/table_codec.h"
#include "tally/error.h"
#include "tally/server.h"

namespace tally::server {

// What a table's spec comes to on a job with so many slots: what all its parts have in common. A
// value.
struct TableConfig {
  TableId id = 0;
  TableSpec spec;
  TableSpec stored;     // as storages are made: with the momentum that its plan leaves
  policy::Rules rules;  // of its plan
  std::uint32_t parts = 0;
  std::uint32_t slots = 1;
  std::vector<std::byte> encoded;           // the spec
  std::shared_ptr<const TableCodec> codec;  // shared by copies of this value; null: none
  // Pushed gradients are added to values, times a factor, and nothing else: their order does not
  // matter.
  bool gradients_commute = false;
};

// kInvalid where the spec or its plan is not offered.
Result<TableConfig> make_table_config(TableId id, const TableSpec& spec, std::uint32_t slots);

}  // namespace tally::server
