#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "exchange/exchange.h"
#include "exchange/server/server_step.h"
#include "exchange/server/server_worker.h"

namespace tally::exchange {

// The meetings of workers, as sums that the servers make. Workers that have left do not count.
class ServerMeetings final : public Meetings {
 public:
  ServerMeetings(ServerWorker& worker, ServerStep& step) : worker_(worker), step_(step) {}

  // With subset:K other workers may have made the next update before a worker that is not drawn
  // reads.
  bool in_step() const override { return worker_.rules().update == plan::Update::kBsp; }
  bool is_first() const override { return worker_.is_first(); }
  Result<void> sum(std::span<double> values) override { return worker_.sum(values); }
  Result<void> broadcast(std::span<std::byte> bytes) override;
  Result<void> meet(std::span<double> values) override;
  bool is_due(std::uint64_t step) override;

 private:
  void share_missing_gradients(std::span<const double> present);

  ServerWorker& worker_;
  ServerStep& step_;
  // asp: the version of the next meeting, and the clock at which this worker comes to it; none:
  // when the version is near.
  std::uint64_t version_ = 0;
  std::optional<std::uint64_t> clock_;
};

}  // namespace tally::exchange
