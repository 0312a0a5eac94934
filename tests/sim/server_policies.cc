#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/rng.h"
#include "sim/server_training.h"

// The times that policies guarantee, in virtual time: which worker waits for which, and how long.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

double seconds(Duration duration) { return static_cast<double>(duration.count()) * 1e-9; }

// The progress of all workers at every moment. One rank runs at a time.
struct Progress {
  explicit Progress(int workers)
      : pushed(static_cast<std::size_t>(workers)), ended(static_cast<std::size_t>(workers)) {}

  std::uint64_t slowest() const { return *std::min_element(pushed.begin(), pushed.end()); }

  std::vector<std::uint64_t> pushed;  // clock of the last gradient that was sent
  std::vector<TimePoint> ended;
  std::uint64_t widest_gap = 0;
};

constexpr int kSleeper = 1;

// Three workers, one of which takes 20 times as long for each step.
Progress train_with_sleeper(const std::string& plan, int steps) {
  Progress progress(3);
  TrainingOptions options{.plan = plan, .workers = 3, .steps = steps};
  options.compute = [](int rank, int) -> Duration { return rank == kSleeper ? 100ms : 5ms; };
  options.on_push = [&](int rank, std::uint64_t clock) {
    progress.pushed[static_cast<std::size_t>(rank)] = clock;
  };
  // A worker that begins its next step has finished `clock` and was allowed to go on.
  options.on_step = [&](int, std::uint64_t clock) {
    const std::uint64_t slowest = progress.slowest();
    if (clock > slowest) progress.widest_gap = std::max(progress.widest_gap, clock - slowest);
  };
  ServedCluster cluster({.servers = 2, .workers = 3, .replicas = 2, .seed = 3, .timeout = 60s});
  const auto results = cluster.run([&](ServedWorker& me) -> Result<void> {
    Training training(me, options);
    TALLY_TRY(training.run());
    progress.ended[static_cast<std::size_t>(me.rank())] = me.now();
    return {};
  });
  for (const auto& result : results)
    EXPECT_TRUE(result.has_value()) << plan << ": " << to_string(result.error());
  return progress;
}

TEST(SimServerPolicies, NobodyIsMoreThanTheBoundAheadOfASleeper) {
  for (const std::uint64_t bound : {0U, 1U, 3U}) {
    const Progress progress = train_with_sleeper(fmt::format("update=ssp:{}", bound), 15);
    EXPECT_EQ(progress.widest_gap, bound);
    // The fast workers end when the slow one does, apart from the bound.
    const double steps_behind = 15.0 - static_cast<double>(bound);
    EXPECT_GT(seconds(progress.ended[0]), 0.1 * steps_behind);
  }
}

TEST(SimServerPolicies, AspAndBackupAreNotHeldUpByASleeper) {
  for (const std::string plan : {"update=asp", "update=backup:1"}) {
    const Progress progress = train_with_sleeper(plan, 15);
    EXPECT_LT(seconds(progress.ended[0]), 0.3) << plan;
    EXPECT_LT(seconds(progress.ended[2]), 0.3) << plan;
  }
}

// Seconds per update with N workers whose steps take exponentially distributed times of mean 1 /
// mu, from the second update on.
double mean_update_time(const std::string& plan, int workers, Duration mean, int updates) {
  Rng rng(17);
  TrainingOptions options{.plan = plan, .workers = workers, .rate = 0.001, .one_table = true};
  // One rank runs at a time: the draws are in the order of virtual time.
  options.compute = [&](int, int) {
    return Duration(std::llround(-std::log(1 - rng.uniform()) * static_cast<double>(mean.count())));
  };
  ServedCluster cluster({.workers = workers, .seed = 3, .timeout = 1000s});
  TimePoint first{};
  TimePoint last{};
  std::uint64_t first_version = 0;
  std::uint64_t last_version = 0;
  const auto results = cluster.run([&](ServedWorker& me) -> Result<void> {
    Training training(me, options);
    TALLY_TRY(training.begin());
    while (last_version < static_cast<std::uint64_t>(updates)) {
      TALLY_TRY(training.step(false));
      if (training.version() <= last_version) continue;
      if (first_version == 0) {
        first_version = training.version();
        first = me.now();
      }
      last_version = training.version();
      last = me.now();
    }
    return {};
  });
  for (const auto& result : results)
    EXPECT_TRUE(result.has_value()) << plan << ": " << to_string(result.error());
  return seconds(last - first) / static_cast<double>(last_version - first_version);
}

double harmonic(int n) {
  double sum = 0;
  for (int i = 1; i <= n; ++i) sum += 1.0 / i;
  return sum;
}

TEST(SimServerPolicies, MeanUpdateTimesMatchTheFormulas) {
  constexpr int kWorkers = 6;
  const Duration mean = 20ms;
  const double unit = seconds(mean);
  struct Case {
    std::string plan;
    double expected;
  };
  for (const Case& one :
       {Case{"update=bsp", harmonic(6)}, Case{"update=backup:1", harmonic(6) - harmonic(1)},
        Case{"update=backup:3", harmonic(6) - harmonic(3)}, Case{"update=kbatch:3", 3.0 / kWorkers},
        Case{"update=kbatch:6", 6.0 / kWorkers}}) {
    const double measured = mean_update_time(one.plan, kWorkers, mean, 500);
    EXPECT_NEAR(measured / (one.expected * unit), 1.0, 0.1) << one.plan;
  }
}

}  // namespace
}  // namespace tally::sim
