#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "exchange/exchange.h"
#include "exchange/group/group_update.h"
#include "exchange/server/sparse_rows.h"
#include "plan/plan.h"
#include "tally/communicator.h"
#include "tally/server_options.h"

namespace tally::exchange {

// A model, and the way in which the ranks of a job train it.
struct ExchangeOptions {
  plan::Plan plan;
  // For all plans. The plan decides `codec`.
  GroupUpdate::Options update;
  // Writes the initial values of a parameter. Called on rank 0.
  std::function<void(std::size_t parameter, DataType type, std::span<std::byte> values)> initial;
  // home=server.
  ServerOptions servers = {};
  SparseRows* rows = nullptr;  // borrowed; null: no sparse tables
};

// The exchange of the plan. Called by all ranks, which get the initial values of rank 0; `world`
// must outlive the exchange. kMismatch if the models or settings of ranks differ; kInvalid if the
// plan excludes a setting.
Result<std::unique_ptr<Exchange>> make_exchange(Communicator& world, ExchangeOptions options);

}  // namespace tally::exchange
