#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "exchange/device/device_exchange.h"
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
  // The device that this rank computes its gradients on; null: ordinary memory. It holds the model
  // if all ranks have one and device_fit() agrees. Otherwise gradients go through host memory, and
  // update.on_event is told why on rank 0.
  std::shared_ptr<Device> device = {};
  MakeDeviceSum make_sum = host_sum_maker();
  MakeDeviceGather make_gather = host_gather_maker();
  bool shards_state = false;  // DeviceExchange::Options::shards_state
};

// The exchange of the plan. Called by all ranks, which get the initial values of rank 0; `world`
// must outlive the exchange. kMismatch if the models or settings of ranks differ; kInvalid if the
// plan excludes a setting.
Result<std::unique_ptr<Exchange>> make_exchange(Communicator& world, ExchangeOptions options);

}  // namespace tally::exchange
