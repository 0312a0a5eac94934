#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "exchange/server/server_client.h"
#include "exchange/server/server_tables.h"
#include "policy/rules.h"
#include "policy/staleness.h"
#include "policy/worker_clock.h"

namespace tally::exchange {

// The versions and clocks of several answers as one: none, if there was no answer.
struct Reading {
  std::optional<policy::Read> read;
  void take(const server::Completion& completion);
};

// A worker at its servers: the requests that are not part of an update, the worker's clock, and the
// steps that it amounts to. Threads: calls must not overlap.
class ServerWorker final {
 public:
  ServerWorker(ServerClient& client, ServerTables tables)
      : client_(client), tables_(std::move(tables)) {}

  ServerClient& client() { return client_; }
  ServerTables& tables() { return tables_; }
  const ServerTables& tables() const { return tables_; }
  const policy::Rules& rules() const { return tables_.options().rules; }
  int rank() const { return tables_.options().rank; }
  int ranks() const { return rules().workers; }
  const policy::WorkerClock& clock() const { return me_; }
  bool is_first() const { return client_.membership().lowest_rank == rank(); }

  Result<server::Completion> wait(server::Ticket ticket);
  // Waits for all tickets. After an error none of them uses memory of this worker.
  Result<void> wait_all(std::span<const server::Ticket> tickets);
  // Pulls the next version of all dense tables.
  void pull_values(const server::PullOptions& facts, std::vector<server::Ticket>& tickets);
  // Assigns values on servers.
  Result<void> assign(const ServerClient::PartRange& range, std::span<const std::byte> values);
  // Forward passes pull sparse rows when they need them; a worker that must wait for others also
  // waits for these tables.
  void await_rows(const server::PullOptions& facts, std::vector<server::Ticket>& tickets);
  Result<void> tell_clock(std::uint64_t clock);
  // Replaces the values by their sums over all workers.
  Result<void> sum(std::span<double> values);
  Result<void> barrier() { return sum({}); }
  // A barrier after work that may fail: `own`, or kPeerLost if another worker's work has failed.
  Result<void> agree(const Result<void>& own);
  // The servers' optimizer state of tables that this worker updates itself.
  Result<void> read_own_state();

  // Pulls the values for the first time, or after a restore: training is at `step`.
  Result<void> join(std::uint64_t step);
  void after_step(const policy::StepChoice& step, const Reading& reading);
  // Moves to the newest values, independent of the progress of other workers.
  Result<void> refresh();

  std::uint64_t newest_version() const;  // of any part that decides about late gradients
  std::uint64_t steps() const;
  // The version at which steps() is `step`. asp: every version is one gradient.
  std::uint64_t version_of(std::uint64_t step) const;
  bool counts_gradients() const;
  void met(std::uint64_t step) { met_step_ = std::max(met_step_, step); }
  // The version of the first table, which is newer than that of clock() if others have pushed.
  std::uint64_t known_version() const;

  // Time and outcomes since construction.
  struct Figures {
    Duration copying{};
    Duration waited{};
    policy::Histogram staleness;
    std::uint64_t dropped = 0;
  };
  Figures figures;

 private:
  Result<Reading> pull_newest();
  server::TableId first_table() const;

  ServerClient& client_;
  ServerTables tables_;
  policy::WorkerClock me_;
  std::uint64_t first_version_ = 0;  // at first_step_
  std::uint64_t first_clock_ = 0;
  std::uint64_t first_step_ = 0;
  std::uint64_t met_step_ = 0;
};

}  // namespace tally::exchange
