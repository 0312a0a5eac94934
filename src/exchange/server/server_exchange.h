#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exchange/clip.h"
#include "exchange/exchange.h"
#include "exchange/server/server_checkpoint.h"
#include "exchange/server/server_client.h"
#include "exchange/server/server_meetings.h"
#include "exchange/server/server_step.h"
#include "exchange/server/server_tables.h"
#include "exchange/server/server_worker.h"

namespace tally::exchange {

// home=server: pushes gradients to parameter servers and pulls values from them, as the worker's
// rules say. Parts whose gradients are complete are pushed while backward still runs. Only the
// servers are needed: the loss of another worker has no effect here.
class ServerExchange final : public Exchange {
 public:
  struct Options {
    ServerTables::Options tables;
    ServerStep::Options step;
    // Writes the initial values of a parameter. Called on rank 0.
    std::function<void(std::size_t parameter, const RealSpan& values)> initial;
  };
  // Called by all ranks, whose options agree; all ranks get the initial values of rank 0.
  static Result<std::unique_ptr<ServerExchange>> make(std::unique_ptr<ServerClient> client,
                                                      const Options& options);

  Result<StepChoice> begin() override { return step_.begin(); }
  Result<bool> announce(const StepContribution& contribution) override {
    return step_.announce(contribution);
  }
  Result<void> ready(std::size_t parameter, const std::byte* elsewhere = nullptr) override;
  Result<StepTotals> complete(const StepContribution& contribution) override {
    return step_.complete(contribution);
  }
  // Workers that do not wait for each other keep their current parameters. kInvalid with rounds.
  Result<void> drain(const StepContribution& rest) override;
  // The servers keep the list of workers: there is nothing to do.
  Result<void> reform(Communicator&) override { return {}; }

  std::uint64_t steps() const override { return worker_.steps(); }
  DataType type(std::size_t parameter) const override;
  std::span<std::byte> values(std::size_t parameter) const override {
    return worker_.tables().values(parameter);
  }
  std::span<std::byte> gradient(std::size_t parameter) override {
    return step_.gradient(parameter);
  }

  Meetings& meetings() override { return meetings_; }
  CheckpointState& checkpoint() override { return checkpoint_; }
  Statistics statistics() const override;

 private:
  ServerExchange(std::unique_ptr<ServerClient> client, ServerTables tables, const Options& options);
  Result<void> assign_values(const Options& options);

  ServerWorker worker_;
  ServerStep step_;
  ServerMeetings meetings_;
  ServerCheckpoint checkpoint_;
  // Requests use the memory of the other members: the client ends first.
  const std::unique_ptr<ServerClient> client_;
};

}  // namespace tally::exchange
