#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exchange/server/server_client.h"

namespace tally::exchange {

// The sparse tables of a model whose rows lie on servers. Forward passes pull the rows that they
// read; an exchange pushes the gradients of these rows.
class SparseRows {
 public:
  // The rows of one table that an update has read: each key once, and its gradient.
  struct Used {
    std::vector<std::uint64_t> keys;
    std::span<float> gradient;
    std::shared_ptr<void> memory;  // owns `gradient`, which a request uses after take()
  };
  virtual ~SparseRows() = default;

  // The name, dimension, seed and scale of each table.
  virtual std::vector<server::TableSpec> tables() const = 0;
  // Forward passes pull rows of tables()[i] from tables[i], until the client ends.
  virtual void connect(ServerClient& client, std::span<const server::TableId> tables) = 0;
  // By table: the rows that were read since the last call.
  virtual std::vector<Used> take() = 0;
};

}  // namespace tally::exchange
