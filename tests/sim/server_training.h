#pragma once
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "policy/worker_clock.h"
#include "sim/server_cluster.h"

// Least squares by gradient descent on parameter servers: small, with the same data on all ranks.
namespace tally::sim {

inline constexpr std::size_t kWeights = 16;
using Weights = std::vector<float>;  // kWeights of them

// The gradient of the mean squared error (halved) on samples first, .. first + count - 1.
Weights gradient_of(const Weights& at, std::uint64_t first, std::uint64_t count);
double loss_of(const Weights& at, std::uint64_t samples);

struct TrainingOptions {
  std::string plan;
  int workers = 1;
  int steps = 10;
  std::uint64_t batch = 4;
  double rate = 0.05;
  // No worker pushes before all workers have read the tables.
  bool begin_together = true;
  bool one_table = false;  // all weights in one dense table
  // How long a worker computes; none: no time at all.
  std::function<Duration(int rank, int step)> compute = {};
  // When a gradient is sent, and after each step: how many the worker has finished.
  std::function<void(int rank, std::uint64_t clock)> on_push = {};
  std::function<void(int rank, std::uint64_t clock)> on_step = {};
};

// One worker on the joined batches of all, without servers.
Weights train_alone(const TrainingOptions& options);

// A worker's training: the weights lie in two dense tables and a sparse one.
class Training {
 public:
  Training(ServedWorker& me, TrainingOptions options) : me_(me), options_(std::move(options)) {}

  // Defines the tables and reads them for the first time.
  Result<void> begin();
  // One step, as the plan says.
  Result<void> step(bool is_last);
  // begin(), and steps until this worker has finished as many as the options say.
  Result<void> run();

  const Weights& weights() const { return weights_; }
  std::uint64_t clock() const { return tables_.front().clock.clock; }
  std::uint64_t version() const { return tables_.front().clock.version; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Table {
    server::TableId id = 0;
    std::size_t first = 0;
    std::size_t count = 0;
    std::vector<std::uint64_t> keys;  // sparse
    policy::WorkerClock clock;
    std::vector<float> accumulated;
  };
  // A gradient that is on its way, by itself or (ticket 0) with the pull of its step.
  struct Pending {
    server::Ticket ticket = 0;
    std::vector<float> gradient;
  };
  struct Asked {
    policy::StepChoice choice;
    std::optional<server::Ticket> pull;
  };

  Result<void> define(const std::string& name, std::size_t first, std::size_t count, bool sparse);
  Result<bool> compute();
  std::span<float> values(const Table& table) {
    return std::span(weights_).subspan(table.first, table.count);
  }
  server::Ticket pull(const Table& table, const policy::ReadRule& rule);
  server::Ticket push(const Table& table, const server::PushOptions& facts,
                      std::span<const float> gradient);
  server::Ticket push_pull(const Table& table, const server::PushOptions& facts,
                           const policy::ReadRule& rule, std::span<const float> gradient);
  policy::Read read_of(const Table& table, const server::Completion& answer) const;
  Result<Asked> ask(Table& table, const Weights& gradient, bool in_time, bool is_last);
  Result<void> reap();

  ServedWorker& me_;
  const TrainingOptions options_;
  policy::Rules rules_;
  std::vector<Table> tables_;
  Weights weights_ = Weights(kWeights);
  std::list<Pending> pending_;
  std::uint64_t dropped_ = 0;
};

}  // namespace tally::sim
