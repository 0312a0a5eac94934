#include "exchange/group/backup_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "collective/test_jobs.h"
#include "soon.h"

namespace tally::exchange {
namespace {

using collective::Network;
using collective::run_ranks;

constexpr std::size_t kCount = 20000;  // several blocks, so that every rank has a slice

GroupUpdate::Options model() {
  GroupUpdate::Options options{.optimizers = {sgd({.rate = 1})}};
  options.parameters.push_back({.name = "p", .shape = {kCount}});
  return options;
}

// Values that are exact in float32 and differ for every rank and version.
float gradient_of(Rank rank, std::uint64_t version) {
  return static_cast<float>((1 << (4 * rank)) + static_cast<int>(version % 8));
}

policy::Rules rules_of(Job& job, int needed) {
  return {.update = plan::Update::kBackup, .workers = job.size(), .needed = needed};
}

// A rank with its part of the model.
class Member {
 public:
  Member(Job& job, int needed)
      : job_(job),
        own_world_(*job.world().split(0, job.rank(), soon())),
        update_(*GroupUpdate::make(*own_world_, model(), soon())),
        exchange_(
            *BackupUpdate::make(*own_world_, *update_, {.rules = rules_of(job, needed)}, soon())),
        thread_([this] { (void)exchange_->serve(); }) {}
  ~Member() { exchange_->stop(); }

  std::uint64_t version() const { return exchange_->version(); }
  float value() const {
    return reinterpret_cast<const float*>(update_->values(0).data())[kCount - 1];
  }
  void write_gradient(std::uint64_t version) {
    auto* const gradient = reinterpret_cast<float*>(update_->gradient(0).data());
    std::fill_n(gradient, kCount, gradient_of(job_.rank(), version));
  }
  BackupUpdate::Taken offer(std::uint64_t version) {
    const auto taken = exchange_->exchange(
        {.version = version,
         .contribution = {.samples = 1, .weight = 1, .loss_sum = 1, .rates = {1.0}},
         .ready = {{.parameter = 0}}},
        soon());
    EXPECT_TRUE(taken.has_value()) << to_string(taken.error());
    return taken ? *taken : BackupUpdate::Taken{};
  }
  BackupUpdate::Taken step() {
    const std::uint64_t version = exchange_->version();
    write_gradient(version);
    return offer(version);
  }
  void catch_up(std::uint64_t version) {
    ASSERT_TRUE(exchange_->catch_up(version, soon()).has_value());
    EXPECT_EQ(exchange_->version(), version);
  }
  bool drain() { return exchange_->drain(soon()).has_value(); }

 private:
  Job& job_;
  std::unique_ptr<Communicator> own_world_;
  std::unique_ptr<GroupUpdate> update_;
  std::unique_ptr<BackupUpdate> exchange_;
  std::jthread thread_;
};

class BackupUpdateOn : public testing::TestWithParam<Network> {};

// Rank 2 computes one gradient while the other ranks make five updates, which include its slices.
TEST_P(BackupUpdateOn, ALateRankHoldsNobodyUpAndIsNotCounted) {
  std::latch others_are_done(2);
  constexpr std::uint64_t kVersions = 5;
  run_ranks(GetParam(), 3, [&](Job& job) {
    Member member(job, 2);
    if (job.rank() == 2) {
      member.write_gradient(0);
      others_are_done.wait();
      const auto taken = member.offer(0);
      EXPECT_FALSE(taken.counted);
      EXPECT_GT(taken.version, 0U);
      member.catch_up(kVersions);
    } else {
      while (member.version() < kVersions) {
        const auto taken = member.step();
        EXPECT_TRUE(taken.counted);
        EXPECT_EQ(taken.samples, 2);
        EXPECT_EQ(taken.loss_sum, 2);
      }
      others_are_done.count_down();
    }
    float expected = 0;
    for (std::uint64_t v = 0; v < kVersions; ++v)
      expected -= (gradient_of(0, v) + gradient_of(1, v)) / 2;
    EXPECT_EQ(member.value(), expected) << "rank " << job.rank();
    ASSERT_TRUE(job.world().barrier().has_value());
    // Rank 2 continues from the current parameters; now rank 1 is missing.
    if (job.rank() != 1) {
      EXPECT_TRUE(member.step().counted);
      expected -= (gradient_of(0, kVersions) + gradient_of(2, kVersions)) / 2;
      EXPECT_EQ(member.value(), expected);
    }
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

TEST_P(BackupUpdateOn, WithoutBackupsAllGradientsCount) {
  run_ranks(GetParam(), 4, [&](Job& job) {
    Member member(job, 4);
    float expected = 0;
    for (std::uint64_t v = 0; v < 6; ++v) {
      const auto taken = member.step();
      EXPECT_TRUE(taken.counted);
      EXPECT_EQ(taken.version, v + 1);
      for (Rank rank = 0; rank < 4; ++rank) expected -= gradient_of(rank, v) / 4;
      EXPECT_EQ(member.value(), expected);
    }
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

// Ranks race for 40 updates. Each update has two gradients, and every rank sees the same result.
TEST_P(BackupUpdateOn, RacingRanksComeToTheSameValues) {
  constexpr std::uint64_t kVersions = 40;
  std::vector<float> values(3);
  std::atomic<std::uint64_t> counted{0};
  run_ranks(GetParam(), 3, [&](Job& job) {
    Member member(job, 2);
    while (member.version() < kVersions)
      if (member.step().counted) ++counted;
    EXPECT_EQ(member.version(), kVersions);
    values[static_cast<std::size_t>(job.rank())] = member.value();
    ASSERT_TRUE(job.world().barrier().has_value());
  });
  EXPECT_EQ(counted, 2 * kVersions);
  EXPECT_THAT(values, testing::Each(values[0]));
}

TEST_P(BackupUpdateOn, RanksWithLessDataDrainAndTheRestGoesOn) {
  run_ranks(GetParam(), 3, [&](Job& job) {
    Member member(job, 2);
    const int steps = job.rank() == 0 ? 6 : 2;
    for (int i = 0; i < steps; ++i) member.step();
    ASSERT_TRUE(member.drain());
    EXPECT_GE(member.version(), 6U);
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

INSTANTIATE_TEST_SUITE_P(Networks, BackupUpdateOn,
                         testing::Values(Network::kInProcess, Network::kTwoHosts,
                                         Network::kUnevenHosts),
                         [](const auto& each) { return name_of(each.param); });

// Waiting ranks fail before the deadline.
TEST(BackupUpdate, ALostRankEndsItForThoseWhoWait) {
  std::latch told(2);
  run_ranks(Network::kTcp, 3, [&](Job& job) {
    auto update = *GroupUpdate::make(job.world(), model(), soon());
    auto exchange = *BackupUpdate::make(job.world(), *update, {.rules = rules_of(job, 3)}, soon());
    if (job.rank() == 2) return job.close();
    std::jthread thread([&] { (void)exchange->serve(); });
    const auto taken = exchange->exchange(
        {.contribution = {.samples = 1, .weight = 1, .rates = {1.0}}, .ready = {{.parameter = 0}}},
        soon());
    // The other ranks stay until all know of the loss.
    told.arrive_and_wait();
    exchange->stop();
    ASSERT_FALSE(taken.has_value());
    EXPECT_EQ(taken.error().code, ErrorCode::kPeerLost);
    EXPECT_EQ(taken.error().peer, 2);
  });
}

}  // namespace
}  // namespace tally::exchange
