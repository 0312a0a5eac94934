#include "apps/train/data_division.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tally::app {
namespace {

using data::Position;
using data::Strategy;

// Workers that train as Training does: batches of their order, and a sum of reports at meetings.
// The test counts their samples one by one.
class DividedTraining {
 public:
  explicit DividedTraining(DivisionOptions options) : options_(options) {
    for (options.rank = 0; options.rank < options.workers; ++options.rank) {
      DataDivision division(options);
      const data::Order order = division.order();
      workers_.push_back({.division = division, .order = order});
    }
  }

  void step(Rank rank) {
    Worker& worker = of(rank);
    for (const std::uint64_t index : worker.order.next()) {
      trained_.insert(index);
      ++worker.samples;
      ++applied_;
    }
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i)
      for (Rank rank = 0; rank < options_.workers; ++rank)
        if (!of(rank).is_dead) step(rank);
  }
  void kill(Rank rank) { of(rank).is_dead = true; }

  // True if workers were found to be lost.
  bool meet(std::uint64_t step) {
    std::vector<double> sums(DataDivision::report_size(options_.workers), 0.0);
    for (const Worker& worker : workers_) {
      if (worker.is_dead) continue;
      const auto report = worker.division.report(worker.order.position(), worker.samples);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += report[i];
    }
    bool lost = false;
    for (Worker& worker : workers_) {
      if (worker.is_dead) continue;
      lost = worker.division.take(sums, step);
      if (lost) worker.order = worker.division.order();
    }
    return lost;
  }

  struct Worker {
    DataDivision division;
    data::Order order;
    std::uint64_t samples = 0;
    bool is_dead = false;
  };
  Worker& of(Rank rank) { return workers_[static_cast<std::size_t>(rank)]; }
  // How often each sample was trained on.
  const std::multiset<std::uint64_t>& trained() const { return trained_; }
  std::uint64_t applied() const { return applied_; }

 private:
  const DivisionOptions options_;
  std::vector<Worker> workers_;
  std::multiset<std::uint64_t> trained_;
  std::uint64_t applied_ = 0;
};

TEST(DataDivision, ALostWorkersShareGoesToTheOthersAndTheRestIsCounted) {
  for (const Strategy strategy : {Strategy::kPartition, Strategy::kStream}) {
    SCOPED_TRACE(to_string(strategy));
    DividedTraining training({.strategy = strategy, .size = 103, .batch = 4, .workers = 3});
    training.steps(2);
    EXPECT_FALSE(training.meet(2));
    training.kill(1);  // at once, so that the count is exact
    training.steps(2);
    EXPECT_TRUE(training.meet(4));
    const DataDivision& division = training.of(0).division;
    EXPECT_EQ(division.living(), (std::vector<Rank>{0, 2}));
    EXPECT_EQ(training.of(2).division.place(), 1);
    EXPECT_EQ(
        division.lost(),
        (std::vector<LostWorker>{{.rank = 1, .after_step = 2, .until_step = 4, .samples = 8}}));
    EXPECT_EQ(training.of(2).division.lost(), division.lost());
    // An epoch has as many steps as with all workers: 9.
    training.steps(5);
    EXPECT_EQ(training.of(0).order.position(), (Position{1, 0}));
    EXPECT_FALSE(training.meet(9));
    EXPECT_EQ(training.applied() + 8, 103U);
    EXPECT_EQ(division.samples(), training.applied());
    const std::set<std::uint64_t> distinct(training.trained().begin(), training.trained().end());
    EXPECT_EQ(distinct.size(), training.trained().size());
    // Nothing is missing in the next epoch.
    training.steps(9);
    EXPECT_EQ(training.applied() + 8, 2 * 103U);
    training.meet(18);
    EXPECT_EQ(division.samples() + division.lost()[0].samples, 2 * 103U);
  }
}

// Workers that die one after the other, at any step, between any meetings: samples that were
// reported and samples that count as lost are together those of all steps, and no fewer were
// trained on than reported.
TEST(DataDivision, ReportedAndLostSamplesAreThoseOfAllSteps) {
  for (const Strategy strategy : {Strategy::kPartition, Strategy::kReplicate, Strategy::kStream}) {
    for (int first_death = 1; first_death < 12; ++first_death) {
      SCOPED_TRACE(fmt::format("{} {}", to_string(strategy), first_death));
      DividedTraining training({.strategy = strategy, .size = 61, .batch = 3, .workers = 4});
      const std::uint64_t steps = training.of(0).order.steps_per_epoch() * 5;
      for (std::uint64_t step = 1; step <= steps; ++step) {
        if (step == static_cast<std::uint64_t>(first_death)) training.kill(2);
        if (step == static_cast<std::uint64_t>(first_death) + 7) training.kill(0);
        training.steps(1);
        if (step % 5 == 0 || step == steps) training.meet(step);
      }
      const DataDivision& division = training.of(1).division;
      ASSERT_EQ(division.lost().size(), 2U);
      const std::uint64_t lost = division.lost()[0].samples + division.lost()[1].samples;
      const std::uint64_t all = 5 * 61 * (strategy == Strategy::kReplicate ? 4 : 1);
      EXPECT_EQ(division.samples() + lost, all);
      EXPECT_LE(division.samples(), training.applied());
      EXPECT_GE(lost, all - training.applied());
    }
  }
}

// asp: workers are at different positions, and the others make the batches of the lost one, too.
TEST(DataDivision, WorkersThatCountBatchesGoOnAtTheirMeanPosition) {
  DividedTraining training({.size = 1000, .batch = 5, .workers = 3, .step_has_all_workers = false});
  training.meet(0);
  training.kill(0);
  for (int i = 0; i < 4; ++i) training.step(1);
  for (int i = 0; i < 8; ++i) training.step(2);
  EXPECT_TRUE(training.meet(4));
  // Worker 1 is at 60 and worker 2 at 120 samples of all three.
  EXPECT_EQ(training.of(1).order.position(), (Position{0, 90}));
  EXPECT_EQ(training.of(2).order.position(), (Position{0, 90}));
  EXPECT_EQ(training.of(1).division.lost()[0].samples, 30U);
  EXPECT_EQ(training.of(1).order.next().size(), 5U);
  EXPECT_EQ(training.of(1).order.position(), (Position{0, 100}));
}

// Three workers of different speeds: whatever parts they have had, an epoch has every sample once
// and as many steps as with equal parts.
TEST(DataDivision, EverySampleIsUsedOnceWhilePartsFollowTheSpeeds) {
  DividedTraining training({.size = 103, .batch = 8, .workers = 3});
  const std::vector<std::vector<std::uint64_t>> courses = {
      {20, 3, 1}, {8, 8, 8}, {1, 22, 1}, {12, 11, 1}};
  EXPECT_EQ(training.of(1).division.parts(), (std::vector<std::uint64_t>{8, 8, 8}));
  for (int step = 1; step <= 15; ++step) {
    training.steps(1);
    if (step % 2 == 0)
      for (Rank rank = 0; rank < 3; ++rank) {
        auto& worker = training.of(rank);
        worker.division.divide(training.of(0).order.position(),
                               courses[static_cast<std::size_t>(step / 2) % courses.size()]);
        worker.order = worker.division.order();
      }
  }
  EXPECT_EQ(training.of(2).order.position(), (Position{3, 0}));
  EXPECT_EQ(training.applied(), 3 * 103U);
  for (std::uint64_t sample = 0; sample < 103; ++sample)
    EXPECT_EQ(training.trained().count(sample), 3U) << sample;
}

TEST(DataDivision, PartsEndWithTheLossOfAWorker) {
  DividedTraining training({.size = 120, .batch = 4, .workers = 3});
  for (Rank rank = 0; rank < 3; ++rank) {
    auto& worker = training.of(rank);
    worker.division.divide({}, {9, 1, 2});
    worker.order = worker.division.order();
  }
  training.steps(2);
  training.meet(2);
  training.kill(0);
  training.steps(1);
  EXPECT_TRUE(training.meet(3));
  const DataDivision& division = training.of(1).division;
  EXPECT_EQ(division.lost(),
            (std::vector<LostWorker>{{.rank = 0, .after_step = 2, .until_step = 3, .samples = 9}}));
  EXPECT_EQ(division.parts(), (std::vector<std::uint64_t>{6, 6}));
  EXPECT_EQ(training.of(2).order.next().size(), 6U);
}

TEST(DataDivision, EveryWorkerContinuesAtItsOwnPosition) {
  const std::vector<Position> saved = {{2, 30}, {1, 90}, {2, 0}};
  DivisionOptions options{.size = 100, .batch = 5, .workers = 3};
  for (options.rank = 0; options.rank < 3; ++options.rank) {
    DataDivision division(options);
    ASSERT_TRUE(division.seek(saved, 7).has_value());
    EXPECT_EQ(division.order().position(), saved[static_cast<std::size_t>(options.rank)]);
    EXPECT_EQ(division.positions(), saved);
  }
}

TEST(DataDivision, AnotherNumberOfWorkersContinuesAtTheCommonPosition) {
  for (const int workers : {1, 2, 4}) {
    DataDivision division({.size = 100, .batch = 5, .workers = workers});
    ASSERT_TRUE(division.seek({{2, 30}, {1, 90}, {2, 0}}, 7).has_value());
    EXPECT_EQ(division.order().position(), (Position{2, 6}));
  }
  DataDivision division({.size = 100, .workers = 2});
  const auto refused = division.seek({{2, 30}, {1, 101}, {2, 0}}, 7);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace tally::app
