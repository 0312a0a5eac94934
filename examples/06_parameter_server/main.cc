// Asynchronous training on parameter servers: fits y = 2 a - 3 b + 0.5. Four workers push gradients
// without waiting for each other, but no worker is more than three steps ahead of the slowest. Two
// servers replicate each other's parameters.
//
//   build/release/examples/06_parameter_server
//
// Directory, servers and workers are threads of this process. In a real job the servers are
// separate processes (`tally serve`, or `tally train --servers 2`), and workers find them by the
// address of the directory.

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tally/server.h"

namespace {

using tally::Deadline;
using tally::Result;
using tally::server::Client;
using tally::server::Directory;
using tally::server::Server;

constexpr int kWorkers = 4;
constexpr std::uint64_t kSteps = 400;
constexpr std::uint64_t kBound = 3;
constexpr int kSamples = 100;  // of each worker

using Weights = std::array<float, 3>;

Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }

// Mean over this worker's samples of the gradient of half the squared error.
Weights gradient_at(std::span<const float> weights, int worker) {
  Weights sum{};
  for (int i = worker * kSamples; i < (worker + 1) * kSamples; ++i) {
    const float a = std::sin(static_cast<float>(i));
    const float b = std::cos(static_cast<float>(3 * i));
    const float error = weights[0] * a + weights[1] * b + weights[2] - (2 * a - 3 * b + 0.5F);
    sum[0] += error * a / kSamples;
    sum[1] += error * b / kSamples;
    sum[2] += error / kSamples;
  }
  return sum;
}

Result<Weights> work(const std::string& directory, int rank) {
  TALLY_TRY(const auto client, Client::connect({.directory = directory, .rank = rank}));
  TALLY_TRY(const auto table, client->define({.name = "weights",
                                              .count = 3,
                                              .optimizer = tally::sgd(),
                                              .plan = "update=ssp:3",
                                              .workers = kWorkers},
                                             soon()));
  const Client::PartRange all{.table = table, .first = 0, .count = client->parts(table)};
  Weights weights{};
  std::uint64_t version = 0;
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    const Weights gradient = gradient_at(weights, rank);
    const auto ticket = client->push_pull(
        all, {.clock = step, .version = version, .weight = kSamples, .rate = 0.5},
        {.least_clock = step > kBound ? step - kBound : 0}, std::as_bytes(std::span(gradient)),
        std::as_writable_bytes(std::span(weights)));
    TALLY_TRY(const auto done, client->wait(ticket, soon()));
    version = done.version;
  }
  TALLY_TRY(client->barrier(soon()));  // all pushes have arrived
  TALLY_TRY(
      client->wait(client->pull(all, {}, std::as_writable_bytes(std::span(weights))), soon()));
  TALLY_TRY(client->barrier(soon()));  // all workers have read before one leaves
  return weights;
}

Result<void> run() {
  TALLY_TRY(const auto directory, Directory::start({.servers = 2}));
  TALLY_TRY(const auto first, Server::start({.directory = directory->address()}));
  TALLY_TRY(const auto second, Server::start({.directory = directory->address()}));
  std::vector<Result<Weights>> results(kWorkers, Weights{});
  {
    std::vector<std::jthread> workers;
    for (int rank = 0; rank < kWorkers; ++rank)
      workers.emplace_back([&, rank] {
        results[static_cast<std::size_t>(rank)] = work(directory->address(), rank);
      });
  }
  for (const auto& result : results) TALLY_TRY(result);
  const Weights& weights = results.front().value();
  std::printf("learned y = %.3f a - %.3f b + %.3f on %d workers and 2 servers\n", weights[0],
              -weights[1], weights[2], kWorkers);
  return {};
}

}  // namespace

int main() {
  const auto outcome = run();
  if (outcome.has_value()) return 0;
  std::fprintf(stderr, "%s\n", to_string(outcome.error()).c_str());
  return 1;
}
