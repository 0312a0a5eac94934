// Measures the cost of heartbeats and recording; see README.md.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/errors.h"
#include "base/recorder.h"
#include "bench/common/clocks.h"
#include "bench/common/statistics.h"
#include "bench/common/words.h"
#include "group/coordinator.h"
#include "group/host.h"
#include "net/socket.h"
#include "process/child_process.h"
#include "tally/job.h"

namespace tally::bench {
namespace {

struct Options {
  int ranks = 2;
  int rounds = 5;
  int steps = 100;
  double heartbeat_s = 1;
  // Only for the processes of the ranks.
  std::string coordinator;
  std::string ports;  // of the rendezvous: one per block, two blocks per round

  std::chrono::milliseconds heartbeat() const {
    return std::chrono::milliseconds(static_cast<long>(heartbeat_s * 1000));
  }
};

// Measurement of one block of steps.
struct Block {
  double wall_ms = 0;          // per step
  double cpu_ms = 0;           // per step, whole process
  double other_cpu_share = 0;  // threads other than the caller's, relative to the caller's
};

struct RankFigures {
  std::vector<Block> without;  // one per round
  std::vector<Block> with;
};

constexpr std::size_t kFloats = 100'000;
constexpr double kStepMs = 10;

double ms_on(clockid_t clock) { return 1e3 * seconds_on(clock); }

// The same arithmetic every time.
[[gnu::noinline]] double compute(long iterations) {
  double value = 1;
  for (long i = 0; i < iterations; ++i) {
    value = value * 1.0000001 + 1e-9;
    asm volatile("" : "+m"(value));  // keeps the compiler from removing the loop
  }
  return value;
}

// Returns the iterations that take the time of a step, at the fastest of several tries.
long iterations_of_a_step() {
  constexpr long kTrial = 1'000'000;
  double best_ms = 1e9;
  volatile double sink = 0;
  for (int i = 0; i < 20; ++i) {
    const double before = ms_on(CLOCK_THREAD_CPUTIME_ID);
    sink = sink + compute(kTrial);
    best_ms = std::min(best_ms, ms_on(CLOCK_THREAD_CPUTIME_ID) - before);
  }
  return static_cast<long>(kStepMs / best_ms * kTrial);
}

Result<Block> run_block(const Options& options, const std::string& coordinator, std::uint16_t port,
                        long iterations) {
  TALLY_TRY(JobOptions job_options,
            options_from([](const char* name) { return std::getenv(name); }));
  job_options.coordinator = coordinator;
  job_options.master_port = port;
  job_options.heartbeat = options.heartbeat();
  TALLY_TRY(const auto job, Job::join(job_options));
  std::vector<float> data(kFloats);
  volatile double sink = 0;
  TALLY_TRY(job->world().barrier());
  const double wall = ms_on(CLOCK_MONOTONIC);
  const double cpu = ms_on(CLOCK_PROCESS_CPUTIME_ID);
  const double own = ms_on(CLOCK_THREAD_CPUTIME_ID);
  for (int step = 0; step < options.steps; ++step) {
    sink = sink + compute(iterations);
    data.assign(kFloats, static_cast<float>(job->rank() + 1));
    TALLY_TRY(job->world().allreduce(std::span(data)));
    const auto expected = static_cast<float>(job->size() * (job->size() + 1) / 2);
    if (data.front() != expected || data.back() != expected) return corrupt("a wrong sum");
    job->count_step(1);
  }
  const double own_ms = ms_on(CLOCK_THREAD_CPUTIME_ID) - own;
  const double cpu_ms = ms_on(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  const Block block{.wall_ms = (ms_on(CLOCK_MONOTONIC) - wall) / options.steps,
                    .cpu_ms = cpu_ms / options.steps,
                    .other_cpu_share = (cpu_ms - own_ms) / own_ms};
  TALLY_TRY(job->world().barrier());
  job->close();
  return block;
}

// Runs all rounds as the rank of the environment.
Result<RankFigures> run_rank(const Options& options) {
  const long iterations = iterations_of_a_step();
  RankFigures figures;
  std::istringstream ports(options.ports);
  for (int round = 0; round < options.rounds; ++round) {
    // The order alternates.
    for (const bool with : {round % 2 == 0, round % 2 != 0}) {
      std::uint16_t port = 0;
      ports >> port;
      TALLY_TRY(const Block block,
                run_block(options, with ? options.coordinator : "", port, iterations));
      (with ? figures.with : figures.without).push_back(block);
    }
  }
  return figures;
}

// Returns the nanoseconds for recording one operation.
double recording_ns() {
  constexpr int kOperations = 1'000'000;
  Recorder recorder("world", 0, 2);
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  for (std::uint32_t i = 0; i < kOperations; ++i) {
    const auto index =
        recorder.begin(i, {.operation = Operation::kBarrier}, Algorithm::kDirect, clock.now());
    recorder.end(index, clock.now(), {});
  }
  return static_cast<double>((clock.now() - begin).count()) / kOperations;
}

template <typename Field>
double median_of(const std::vector<Block>& blocks, Field field) {
  std::vector<double> values;
  for (const Block& block : blocks) values.push_back(block.*field);
  return median(values);
}

void print(const Options& options, const RankFigures& figures) {
  const double record_ns = recording_ns();
  nlohmann::ordered_json line;
  line["bench"] = "overhead";
  line["host"] = group::host_name();
  line["cores"] = usable_cores();
  line["ranks"] = options.ranks;
  line["rounds"] = options.rounds;
  line["steps"] = options.steps;
  line["heartbeat_s"] = options.heartbeat_s;
  line["wall_ms_without"] = median_of(figures.without, &Block::wall_ms);
  line["wall_ms_with"] = median_of(figures.with, &Block::wall_ms);
  line["cpu_ms_without"] = median_of(figures.without, &Block::cpu_ms);
  line["cpu_ms_with"] = median_of(figures.with, &Block::cpu_ms);
  line["watch_cpu_percent"] = 100 * median_of(figures.with, &Block::other_cpu_share);
  line["record_ns"] = record_ns;
  line["record_percent"] = 100 * record_ns / (kStepMs * 1e6);
  fmt::print("{}\n", line.dump());
}

// Returns distinct free ports of this machine as a text.
std::string free_ports(int count) {
  std::vector<net::Listener> listeners;
  std::string ports;
  for (int i = 0; i < count; ++i) {
    auto listener = net::Listener::bind({.host = "127.0.0.1", .port = 0});
    if (!listener.has_value()) break;
    ports += fmt::format("{} ", listener->address().port);
    listeners.push_back(*std::move(listener));
  }
  return ports;
}

// Each rank is a process of its own.
Result<void> run_ranks(const Options& options) {
  TALLY_TRY(const auto coordinator,
            group::Coordinator::start({.job = fmt::format("overhead-{}", getpid()),
                                       .size = options.ranks,
                                       .heartbeat = options.heartbeat()},
                                      [](const group::CoordinatorEvent& event) {
                                        if (event.kind == group::EventKind::kLost)
                                          fmt::print(stderr, "{}\n", event.sentence);
                                      }));
  const std::vector<std::string> command =
      words("{} --ranks {} --rounds {} --steps {} --heartbeat {} --coordinator {} --ports {}",
            process::own_program(), options.ranks, options.rounds, options.steps,
            options.heartbeat_s, to_string(coordinator->address()), free_ports(2 * options.rounds));
  std::vector<std::unique_ptr<process::ChildProcess>> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    TALLY_TRY(ranks.emplace_back(),
              process::ChildProcess::start(
                  {.command = command,
                   .variables = {{"RANK", std::to_string(rank)},
                                 {"WORLD_SIZE", std::to_string(options.ranks)}}}));
  }
  for (const auto& rank : ranks) {
    const auto status = rank->wait(Deadline::never());
    if (!status->ok()) return system_failure("a rank " + to_string(*status));
  }
  return {};
}

Result<void> run_as_rank(const Options& options) {
  TALLY_TRY(const RankFigures figures, run_rank(options));
  if (std::getenv("RANK") == std::string("0")) print(options, figures);
  return {};
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  tally::bench::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const double value = std::atof(argv[i + 1]);
    if (name == "--ranks") options.ranks = std::max(1, static_cast<int>(value));
    if (name == "--rounds") options.rounds = std::max(1, static_cast<int>(value));
    if (name == "--steps") options.steps = std::max(1, static_cast<int>(value));
    if (name == "--heartbeat") options.heartbeat_s = std::max(0.01, value);
    if (name == "--coordinator") options.coordinator = argv[i + 1];
    if (name == "--ports") options.ports = argv[i + 1];
  }
  const auto outcome =
      options.ports.empty() ? tally::bench::run_ranks(options) : tally::bench::run_as_rank(options);
  if (outcome) return 0;
  fmt::print(stderr, "overhead_bench: {}\n", outcome.error().message);
  return 1;
}
