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

// What all parts of a table have in common, from its spec and the job's number of slots. A value.
struct TableConfig {
  TableId id = 0;
  TableSpec spec;
  TableSpec stored;     // the spec of storages: with the momentum that the plan leaves to them
  policy::Rules rules;  // of its plan
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

}  // namespace tally::server
