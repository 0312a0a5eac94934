#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "sim/server_load.h"
#include "sim/server_training.h"

// Servers and workers are killed, stopped and cut off at random moments under load: the tables
// contain each acknowledged push once, and every other push completely or not at all.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kSilence = 1s;

// A whole run, from a seed.
class Script {
 public:
  explicit Script(std::uint64_t seed) : rng_(seed * 0x9E3779B97F4A7C15ULL + 1) {
    servers_ = 2 + static_cast<int>(rng_.below(3));
    load_ = {.workers = 2 + static_cast<int>(rng_.below(3)),
             .pushes = 15 + static_cast<int>(rng_.below(10)),
             .wide = rng_.below(16) == 0,
             .gradients = rng_.below(2) == 0,
             .pause = 1ms * (1 + static_cast<int>(rng_.below(20))),
             .seed = seed};
    if (load_.gradients && seed % 4 < 2)
      load_.codec = seed % 4 == 0 ? "fp16" : "threshold:0.5+rans";
    has_two_losses_ = servers_ > 2 && rng_.below(3) == 0;
    replicas_ = servers_ > 2 && rng_.below(3) == 0 ? 3 : 2;
    if (servers_ > replicas_ && rng_.below(2) == 0) spares_ = 1;
    // The load lasts until after the second loss.
    if (has_two_losses_) load_.pause = 140ms;
    horizon_ = load_.pause * load_.pushes;
  }

  void run() {
    ServedClusterOptions options{.servers = servers_,
                                 .spares = spares_,
                                 .workers = load_.workers,
                                 .replicas = replicas_,
                                 .seed = rng_.next(),
                                 .conditions = {.jitter = below(rng_.below(2) == 0 ? 2ms : 50us)},
                                 .silence_limit = kSilence};
    for (std::uint64_t i = rng_.below(4); i > 0; --i) options.breaks.push_back(broken_link());
    ServedCluster cluster(options);
    Load load(load_);
    if (spares_ > 0) {
      const Duration late = 5ms + below(has_two_losses_ ? 500ms : horizon_);
      note(fmt::format("{:.3f} ms: server {} comes", ms(late), servers_));
      cluster.come_late(cluster.server(servers_ - 1), late);
    }
    lose_servers(cluster);
    if (rng_.below(2) == 0) lose_worker(cluster, load);
    disturb(cluster);
    const auto results = cluster.run([&](ServedWorker& me) { return load.run(me); });
    for (int i = 0; i < load_.workers; ++i) {
      if (i == killed_worker_) continue;
      const auto& result = results[static_cast<std::size_t>(i)];
      EXPECT_TRUE(result.has_value()) << "worker " << i << ": " << to_string(result.error());
    }
    if (!testing::Test::HasFailure()) return;
    fmt::print(stderr, "{} servers, {} copies, {} workers, {} pushes, pause {} ns{}{}\n", servers_,
               replicas_, load_.workers, load_.pushes, load_.pause.count(),
               load_.wide ? ", wide" : "", load_.gradients ? ", gradients" : "");
    if (!load_.codec.empty()) fmt::print(stderr, "codec {}\n", load_.codec);
    for (const std::string& fault : faults_) fmt::print(stderr, "{}\n", fault);
    for (const std::string& event : cluster.events()) fmt::print(stderr, "{}\n", event);
    fmt::print(stderr, "failing seed {}\n", load_.seed);
  }

 private:
  Duration below(Duration bound) {
    return Duration(
        static_cast<Duration::rep>(rng_.below(static_cast<std::uint64_t>(bound.count()))));
  }
  // Of those that are there from the beginning.
  Rank some_server() {
    return 1 + static_cast<Rank>(rng_.below(static_cast<std::uint64_t>(servers_ - spares_)));
  }
  Rank some_worker() {
    return 1 + servers_ + static_cast<Rank>(rng_.below(static_cast<std::uint64_t>(load_.workers)));
  }

  Break broken_link() {
    const Rank one = some_server();
    Rank other = rng_.below(3) == 0 ? some_server() : some_worker();
    if (other == one) other = some_worker();
    const Break broken{.one = one, .other = other, .at = below(horizon_)};
    note(fmt::format("{:.3f} ms: the link of {} and {} breaks", ms(broken.at), one, other));
    return broken;
  }

  // As many at a time as there are copies but one: else the second when the copies of the first are
  // filled again.
  void lose_servers(ServedCluster& cluster) {
    if (rng_.below(8) == 0) return;
    const Rank first = some_server();
    const TimePoint moment = 5ms + below(has_two_losses_ ? 500ms : horizon_);
    lose(cluster, first, moment, rng_.below(4));
    if (!has_two_losses_) return;
    Rank second = some_server();
    if (second == first) second = 1 + first % (servers_ - spares_);
    const Duration later = replicas_ == 3 ? below(1s) : 2 * kSilence + below(500ms);
    lose(cluster, second, moment + later, rng_.below(3));
  }

  void lose(ServedCluster& cluster, Rank server, TimePoint at, std::uint64_t how) {
    note(fmt::format("{:.3f} ms: server {} is lost in way {}", ms(at), server, how));
    if (how == 0) {
      cluster.faults().kill({.rank = server, .at = at});
    } else if (how == 1) {  // does nothing for long, and then believes that it still serves
      cluster.faults().stop({.rank = server, .from = at, .until = at + 3 * kSilence});
    } else if (how == 2) {  // serves on, while the directory hears nothing of it
      cluster.faults().cut({.one = server,
                            .other = ServedCluster::kDirectoryRank,
                            .from = at,
                            .until = at + 3 * kSilence});
    } else if (!has_two_losses_) {
      cluster.faults().kill({.rank = server, .before_frame = 5 + rng_.below(600)});
    } else {
      cluster.faults().kill({.rank = server, .at = at});
    }
  }

  void lose_worker(ServedCluster& cluster, Load& load) {
    killed_worker_ = static_cast<int>(rng_.below(static_cast<std::uint64_t>(load_.workers)));
    load.killed(killed_worker_);
    const Rank rank = cluster.worker(killed_worker_);
    note(fmt::format("worker {} is killed", rank));
    if (rng_.below(2) == 0) {
      cluster.faults().kill({.rank = rank, .at = below(horizon_)});
    } else {
      cluster.faults().kill({.rank = rank, .before_frame = rng_.below(150)});
    }
  }

  void disturb(ServedCluster& cluster) {
    const int ranks = 1 + servers_ + load_.workers;
    for (std::uint64_t i = rng_.below(4); i > 0; --i) {
      const auto one = static_cast<Rank>(rng_.below(static_cast<std::uint64_t>(ranks)));
      const auto other =
          (one + 1 + static_cast<Rank>(rng_.below(static_cast<std::uint64_t>(ranks - 1)))) % ranks;
      const TimePoint from = below(horizon_);
      const bool delays = rng_.below(2) == 0;
      const Duration time = below(delays ? 60ms : 250ms);
      note(fmt::format("{:.3f} ms: {} to {}, {} {:.3f} ms", ms(from), one, other,
                       delays ? "slower by" : "cut for", ms(time)));
      if (delays) {
        cluster.faults().delay(
            {.from = one, .to = other, .extra = time, .since = from, .until = from + 300ms});
      } else {
        cluster.faults().cut({.one = one, .other = other, .from = from, .until = from + time});
      }
    }
  }

  void note(const std::string& fault) { faults_.push_back(fault); }
  static double ms(Duration time) { return static_cast<double>(time.count()) * 1e-6; }

  Rng rng_;
  std::vector<std::string> faults_;
  int servers_ = 0;
  int spares_ = 0;
  int replicas_ = 2;
  LoadOptions load_;
  bool has_two_losses_ = false;
  Duration horizon_{};
  int killed_worker_ = -1;
};

// In all; TALLY_SOAK_SEEDS asks for more. Where the sanitizers make each slow, fewer.
constexpr std::uint64_t kShares = 8;
#if defined(TALLY_SANITIZED)
constexpr std::uint64_t kSeeds = 48;
#else
constexpr std::uint64_t kSeeds = 240;
#endif

std::uint64_t asked_for(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  if (value == nullptr) return otherwise;
  const std::string_view text(value);
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  EXPECT_TRUE(read.ec == std::errc() && read.ptr == text.data() + text.size())
      << name << "=" << text;
  return number;
}

class SimServerChaos : public testing::TestWithParam<std::uint64_t> {};

TEST_P(SimServerChaos, WhatWasAcknowledgedIsInTheTablesOnce) {
  const std::uint64_t end = asked_for("TALLY_SOAK_SEEDS", kSeeds);
  // Runs a single seed, for debugging.
  const std::uint64_t only = asked_for("TALLY_CHAOS_SEED", end);
  for (std::uint64_t seed = GetParam(); seed < std::max(end, only + 1); seed += kShares) {
    if (only != end && seed != only) continue;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Script(seed).run();
    if (HasFailure()) break;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, SimServerChaos, testing::Range<std::uint64_t>(0, kShares));

TEST(SimServerFailover, PushesAreAcknowledgedAgainWithinASecond) {
  for (int servers = 2; servers <= 4; ++servers) {
    for (int victim = 0; victim < servers; ++victim) {
      ServedCluster cluster({.servers = servers, .workers = 2, .replicas = 2, .seed = 9});
      const TimePoint moment = 100ms;
      cluster.faults().kill({.rank = cluster.server(victim), .at = moment});
      Load load({.workers = 2, .pushes = 30, .dense_tables = 5, .pause = 8ms});
      for (const auto& result : cluster.run([&](ServedWorker& me) { return load.run(me); }))
        EXPECT_TRUE(result.has_value()) << to_string(result.error());
      const auto first = load.first_acknowledged_after(moment);
      EXPECT_EQ(first.size(), 6U);
      for (const auto& [table, acknowledged] : first)
        EXPECT_LT(acknowledged - moment, 1s) << "table " << table;
    }
  }
}

// A stopped server resumes in the middle of the load and believes that it still serves.
TEST(SimServerFailover, AStoppedServerWithCopiesIsGivenUpAndNothingIsLost) {
  for (int servers = 2; servers <= 3; ++servers) {
    for (int run = 0; run < 6; ++run) {
      SCOPED_TRACE(testing::Message() << servers << " servers, run " << run);
      ServedCluster cluster({.servers = servers,
                             .workers = 2,
                             .replicas = 2,
                             .seed = static_cast<std::uint64_t>(run),
                             .conditions = {.jitter = 500us},
                             .silence_limit = 0ms,
                             .failover_limit = 1s,
                             .servers_live = true});
      const TimePoint moment = 100ms + run * 37ms;
      cluster.faults().stop(
          {.rank = cluster.server(run % servers), .from = moment, .until = moment + 2500ms});
      Load load({.workers = 2, .pushes = 30, .gradients = run % 2 == 0, .pause = 140ms});
      for (const auto& result : cluster.run([&](ServedWorker& me) { return load.run(me); }))
        EXPECT_TRUE(result.has_value()) << to_string(result.error());
      for (const auto& [table, acknowledged] : load.first_acknowledged_after(moment))
        EXPECT_LT(acknowledged - moment, 2s) << "table " << table;
      const auto said = [&cluster](const std::string& text) {
        return std::any_of(
            cluster.events().begin(), cluster.events().end(),
            [&](const std::string& event) { return event.find(text) != std::string::npos; });
      };
      EXPECT_TRUE(said("and other servers have its parts"));
      EXPECT_TRUE(said("this server serves no more: the directory has removed it"));
    }
  }
}

// Without a copy its parts would be lost: the job goes on when it resumes.
TEST(SimServerFailover, AStoppedServerWithoutCopiesIsWaitedFor) {
  ServedCluster cluster({.servers = 2,
                         .workers = 2,
                         .replicas = 1,
                         .silence_limit = 0ms,
                         .failover_limit = 1s,
                         .servers_live = true});
  cluster.faults().stop({.rank = cluster.server(0), .from = 100ms, .until = 12s});
  Load load({.workers = 2, .pushes = 10, .pause = 50ms});
  for (const auto& result : cluster.run([&](ServedWorker& me) { return load.run(me); }))
    EXPECT_TRUE(result.has_value()) << to_string(result.error());
  EXPECT_GT(cluster.ended(), TimePoint(12s));
}

// The loss of a server does not tear rounds: the weights are equal to those of a single worker.
TEST(SimServerFailover, BspGoesOnAsIfNothingHadHappened) {
  for (int moment = 0; moment < 16; ++moment) {
    SCOPED_TRACE(testing::Message() << "moment " << moment);
    const TrainingOptions options{
        .plan = moment % 2 == 0 ? "update=bsp" : "update=ssp:0",
        .workers = 3,
        .steps = 20,
        .compute = [](int rank, int) -> Duration { return 5ms + 300us * rank; }};
    ServedCluster cluster({.servers = 3,
                           .workers = 3,
                           .replicas = 2,
                           .seed = static_cast<std::uint64_t>(moment),
                           .conditions = {.jitter = 500us}});
    cluster.faults().kill({.rank = cluster.server(moment % 3), .at = 20ms + moment * 3170us});
    const Weights alone = train_alone(options);
    const auto results = cluster.run([&](ServedWorker& me) -> Result<void> {
      Training training(me, options);
      TALLY_TRY(training.run());
      for (std::size_t i = 0; i < kWeights; ++i)
        EXPECT_NEAR(training.weights()[i], alone[i], 1e-6) << i;
      return {};
    });
    for (const auto& result : results) EXPECT_TRUE(result.has_value()) << to_string(result.error());
  }
}

// The gathering server dies between any two of its messages, also after some workers have received
// a sum and others have not.
TEST(SimServerFailover, EverybodyHearsTheSameSumsWhenTheServerThatGathersDies) {
  for (int frame = 5; frame < 45; ++frame) {
    for (int victim = 0; victim < 2; ++victim) {
      ServedCluster cluster({.servers = 2, .workers = 3, .replicas = 2, .seed = 2});
      cluster.faults().kill(
          {.rank = cluster.server(victim), .before_frame = static_cast<std::uint64_t>(frame)});
      const auto results = cluster.run([&](ServedWorker& me) -> Result<void> {
        TALLY_TRY(me.sleep_until(100ms, [&] { return me.node().membership().workers == 3; }));
        for (int round = 1; round <= 12; ++round) {
          const double mine = std::pow(10.0, me.rank()) * round;
          TALLY_TRY(const std::vector<double> sum, me.agree({&mine, 1}));
          EXPECT_EQ(sum.at(0), 111.0 * round) << "round " << round << ", frame " << frame;
        }
        // A worker that has left does not offer again.
        return me.sleep(50ms);
      });
      for (const auto& result : results)
        EXPECT_TRUE(result.has_value()) << "frame " << frame << ": " << to_string(result.error());
    }
  }
}

TEST(SimServerFailover, LossOfAllCopiesIsToldWithWhatWasLost) {
  ServedCluster cluster({.servers = 2, .workers = 2, .replicas = 2, .seed = 4});
  cluster.faults().kill({.rank = cluster.server(0), .at = 100ms});
  cluster.faults().kill({.rank = cluster.server(1), .at = 200ms});
  Load load({.workers = 2, .pushes = 100, .pause = 5ms});
  for (const auto& result : cluster.run([&](ServedWorker& me) { return load.run(me); })) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kPeerLost);
    EXPECT_NE(result.error().message.find("servers 1, 2 are gone and had the only"),
              std::string::npos)
        << to_string(result.error());
  }
  EXPECT_LT(cluster.ended(), 2s);
}

}  // namespace
}  // namespace tally::sim
