#include "bench/overhead/rank.h"

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <span>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/recorder.h"
#include "tally/job.h"

namespace tally::bench {
namespace {

constexpr std::size_t kFloats = 100'000;
constexpr double kStepMs = 10;

double ms_on(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

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

Result<Block> run_block(const RankOptions& options, const std::string& coordinator,
                        std::uint16_t port, long iterations) {
  TALLY_TRY(JobOptions job_options,
            options_from([](const char* name) { return std::getenv(name); }));
  job_options.coordinator = coordinator;
  job_options.master_port = port;
  job_options.heartbeat = std::chrono::milliseconds(static_cast<long>(options.heartbeat_s * 1000));
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
    if (data.front() != expected || data.back() != expected)
      return Error{.code = ErrorCode::kCorrupt, .message = "a wrong sum"};
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

}  // namespace

Result<RankFigures> run_rank(const RankOptions& options) {
  const long iterations = iterations_of_a_step();
  RankFigures figures;
  std::size_t block_index = 0;
  for (int round = 0; round < options.rounds; ++round) {
    // The order alternates.
    for (const bool with : {round % 2 == 0, round % 2 != 0}) {
      TALLY_TRY(const Block block, run_block(options, with ? options.coordinator : "",
                                             options.ports.at(block_index++), iterations));
      (with ? figures.with : figures.without).push_back(block);
    }
  }
  return figures;
}

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

}  // namespace tally::bench
