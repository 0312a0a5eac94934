#include "collective/external.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/errors.h"
#include "collective/communicator_conformance.h"

// Communicators whose collectives an engine outside of Tally carries out. The engine of these tests
// moves the data through another communicator of Tally's.
namespace tally::collective {
namespace {

Deadline in(std::chrono::milliseconds time) { return Deadline::after(time); }
Deadline soon() { return in(std::chrono::minutes(2)); }

// What an engine does with one operation.
struct Script {
  std::function<Result<bool>(bool all_entered)> advance;
  std::function<void()> cancel = [] {};
};

class ScriptedOperation final : public ExternalOperation {
 public:
  explicit ScriptedOperation(Script script) : script_(std::move(script)) {}
  Result<bool> advance(bool all_entered) override { return script_.advance(all_entered); }
  void cancel() override { script_.cancel(); }

 private:
  const Script script_;
};

MakeExternal engine_of(std::function<Script(const Request&)> make) {
  return [make](const Request& request) -> Result<std::unique_ptr<ExternalOperation>> {
    return std::unique_ptr<ExternalOperation>(std::make_unique<ScriptedOperation>(make(request)));
  };
}

// Carries the collectives out over `inner`, once all ranks have entered.
MakeExternal engine_over(Communicator& inner) {
  return engine_of([&inner](const Request& request) {
    auto handle = std::make_shared<std::optional<Handle>>();
    return Script{.advance = [&inner, &request, handle](bool all_entered) -> Result<bool> {
      if (!all_entered) return false;
      if (!*handle) {
        Request copy = request;
        copy.by = soon();
        *handle = inner.start(copy);
      }
      if (!(*handle)->poll()) return false;
      TALLY_TRY((*handle)->wait());
      return true;
    }};
  });
}

class External : public testing::TestWithParam<Network> {
 protected:
  // Runs `body` on all ranks, over the engine that `engine` makes for a rank.
  static void run(int ranks, const std::function<MakeExternal(Communicator& inner)>& engine,
                  const std::function<void(Communicator&)>& body) {
    run_ranks(GetParam(), ranks, [&](Job& job) {
      auto inner = job.world().split(0, job.rank(), soon());
      ASSERT_TRUE(inner.has_value()) << to_string(inner.error());
      auto made = carried_out_by(engine(**inner), job.world(), soon());
      ASSERT_TRUE(made.has_value()) << to_string(made.error());
      body(**made);
      EXPECT_TRUE(job.world().barrier({.by = soon()}).has_value());
    });
  }
};

TEST_P(External, TheEngineCarriesOutCollectivesInTheOrderOfIssue) {
  run(3, engine_over, [](Communicator& world) {
    std::vector<std::vector<float>> data;
    std::vector<Handle> handles;
    for (std::size_t k = 0; k < 20; ++k) data.push_back(inputs<float>(world.rank(), 10 * k));
    for (std::vector<float>& each : data)
      handles.push_back(world.start({.operation = Operation::kAllreduce,
                                     .input = each.data(),
                                     .output = each.data(),
                                     .count = each.size(),
                                     .type = DataType::kFloat32}));
    ASSERT_TRUE(world.barrier().has_value());
    for (std::size_t k = 0; k < data.size(); ++k) {
      EXPECT_TRUE(handles[k].poll());
      ASSERT_TRUE(handles[k].wait().has_value());
      for (std::size_t i = 0; i < data[k].size(); ++i)
        ASSERT_EQ(data[k][i], static_cast<float>(combined(ReduceOp::kSum, world.size(), i)));
    }
    std::vector<float> of_root = inputs<float>(world.rank(), 100);
    ASSERT_TRUE(world.broadcast(std::span(of_root), 2).has_value());
    EXPECT_EQ(of_root, inputs<float>(2, 100));
  });
}

TEST_P(External, TheEngineLearnsWhenAllRanksHaveEntered) {
  std::atomic<int> entered{0};
  run(
      3,
      [&entered](Communicator&) {
        return engine_of([&entered](const Request&) {
          entered.fetch_add(1);
          return Script{.advance = [&entered](bool all) -> Result<bool> {
            EXPECT_TRUE(!all || entered.load() == 3);
            return all;
          }};
        });
      },
      [](Communicator& world) {
        std::vector<float> data(10);
        EXPECT_TRUE(world.allreduce(std::span(data)).has_value());
      });
}

TEST_P(External, DifferentCallsAreAMismatchBeforeTheEngineMovesData) {
  run(2, engine_over, [](Communicator& world) {
    std::vector<float> data(8);
    const Result<void> outcome =
        world.rank() == 0 ? world.allreduce(std::span(data)) : world.broadcast(std::span(data), 1);
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code, ErrorCode::kMismatch) << to_string(outcome.error());
    EXPECT_THAT(outcome.error().message, testing::HasSubstr("called allreduce sum of 8 float32"));
    EXPECT_EQ(world.barrier().error().message, outcome.error().message);
  });
}

TEST_P(External, ARankThatStaysAwayIsNamedAtTheDeadline) {
  std::atomic<int> given_up{0};
  std::atomic<int> cancelled{0};
  run(
      3,
      [&cancelled](Communicator&) {
        return engine_of([&cancelled](const Request&) {
          return Script{.advance = [](bool) -> Result<bool> { return false; },
                        .cancel = [&cancelled] { ++cancelled; }};
        });
      },
      [&given_up](Communicator& world) {
        ASSERT_TRUE(world.barrier().has_value());
        if (world.rank() == 2) {
          while (given_up < 2) std::this_thread::yield();
          return;
        }
        std::vector<float> data(100);
        const auto outcome = world.allreduce(std::span(data), ReduceOp::kSum,
                                             {.by = in(std::chrono::milliseconds(300))});
        EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout);
        EXPECT_EQ(outcome.error().peer, 2) << to_string(outcome.error());
        EXPECT_THAT(world.recent_operations(), testing::HasSubstr("not arrived: 2"));
        ++given_up;
      });
  EXPECT_EQ(cancelled, 2);
}

TEST_P(External, AnEngineThatHangsEndsAtTheDeadlineWithoutABlamedRank) {
  run(
      3,
      [](Communicator&) {
        return engine_of(
            [](const Request&) { return Script{[](bool) -> Result<bool> { return false; }}; });
      },
      [](Communicator& world) {
        std::vector<float> data(100);
        const auto outcome = world.allreduce(std::span(data), ReduceOp::kSum,
                                             {.by = in(std::chrono::milliseconds(300))});
        EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout);
        EXPECT_EQ(outcome.error().peer, kNoRank) << to_string(outcome.error());
        EXPECT_THAT(outcome.error().message, testing::HasSubstr("all ranks have entered it"));
      });
}

// Rank 2 has entered the operation and done its part.
TEST_P(External, ARankThatLeavesBeforeTheOthersAreDoneIsNamed) {
  run_ranks(GetParam(), 3, [](Job& job) {
    const bool leaves = job.rank() == 2;
    auto made = carried_out_by(
        engine_of([leaves](const Request&) {
          return Script{[leaves](bool all) -> Result<bool> { return leaves && all; }};
        }),
        job.world(), soon());
    ASSERT_TRUE(made.has_value()) << to_string(made.error());
    std::vector<float> data(100);
    const auto outcome =
        (*made)->allreduce(std::span(data), ReduceOp::kSum, {.by = Deadline::never()});
    EXPECT_EQ(outcome.has_value(), leaves);
    if (leaves) return job.close();
    EXPECT_EQ(outcome.error().code, ErrorCode::kPeerLost) << to_string(outcome.error());
    EXPECT_EQ(outcome.error().peer, 2) << to_string(outcome.error());
  });
}

// Rank 1 returns its own error; to the others rank 1 is lost.
void expect_loss_of_rank_1(const Error& error, Rank rank) {
  EXPECT_EQ(error.peer, 1) << to_string(error);
  EXPECT_EQ(error.code, rank == 1 ? ErrorCode::kSystem : ErrorCode::kPeerLost);
  EXPECT_EQ(error.message, rank == 1 ? "no more channels" : "rank 1: no more channels");
}

TEST_P(External, AnErrorOfTheEngineIsTheLossOfItsRankToTheOthers) {
  run(
      3,
      [](Communicator& inner) {
        const bool fails = inner.rank() == 1;
        return engine_of([fails](const Request&) {
          return Script{[fails](bool all) -> Result<bool> {
            if (fails && all) return system_failure("no more channels");
            return false;
          }};
        });
      },
      [](Communicator& world) {
        std::vector<float> data(100);
        const auto outcome = world.allreduce(std::span(data), ReduceOp::kSum, {.by = soon()});
        ASSERT_FALSE(outcome.has_value());
        expect_loss_of_rank_1(outcome.error(), world.rank());
      });
}

// Rank 1 gives its operation up after the others have returned.
TEST_P(External, ThePeersLearnOfAnErrorBeforeTheEngineGivesUp) {
  std::atomic<int> told{0};
  run(
      3,
      [&told](Communicator& inner) {
        const bool fails = inner.rank() == 1;
        return engine_of([&told, fails](const Request&) {
          return Script{.advance = [fails](bool all) -> Result<bool> {
                          if (fails && all) return system_failure("no more channels");
                          return false;
                        },
                        .cancel =
                            [&told, fails] {
                              const Deadline by = in(std::chrono::seconds(20));
                              while (fails && told < 2 && !by.passed(steady_now()))
                                std::this_thread::yield();
                              EXPECT_TRUE(!fails || told == 2);
                            }};
        });
      },
      [&told](Communicator& world) {
        std::vector<float> data(100);
        Handle sum = world.start({.operation = Operation::kAllreduce,
                                  .input = data.data(),
                                  .output = data.data(),
                                  .count = data.size(),
                                  .type = DataType::kFloat32,
                                  .by = soon()});
        EXPECT_FALSE(sum.wait().has_value());
        ++told;
      });
}

// Without a word the other ranks would wait for it until their deadline, of which they have none.
TEST_P(External, AnEngineThatCannotBeginEndsTheOperationOnAllRanks) {
  run(
      3,
      [](Communicator& inner) -> MakeExternal {
        if (inner.rank() != 1) return engine_over(inner);
        return [](const Request&) -> Result<std::unique_ptr<ExternalOperation>> {
          return system_failure("no more channels");
        };
      },
      [](Communicator& world) {
        std::vector<float> data(100);
        const auto outcome =
            world.allreduce(std::span(data), ReduceOp::kSum, {.by = Deadline::never()});
        ASSERT_FALSE(outcome.has_value());
        expect_loss_of_rank_1(outcome.error(), world.rank());
      });
}

TEST_P(External, WhatTheEngineRefusesLeavesTheCommunicatorUsable) {
  run(
      2,
      [](Communicator& inner) -> MakeExternal {
        return [engine = engine_over(inner)](
                   const Request& request) -> Result<std::unique_ptr<ExternalOperation>> {
          if (request.type == DataType::kInt8) return invalid("no int8");
          return engine(request);
        };
      },
      [](Communicator& world) {
        std::vector<std::int8_t> bytes(4);
        EXPECT_EQ(world.allreduce(std::span(bytes)).error().code, ErrorCode::kInvalid);
        std::vector<float> data(4, 1.0F);
        EXPECT_EQ(world.allreduce(std::span(data), ReduceOp::kSum, {.algorithm = Algorithm::kRing})
                      .error()
                      .code,
                  ErrorCode::kInvalid);
        EXPECT_TRUE(world.allreduce(std::span(data)).has_value());
        EXPECT_THAT(data, testing::Each(2.0F));
      });
}

TEST_P(External, CloseCancelsWhatTheEngineHasBegun) {
  std::atomic<int> begun{0};
  std::atomic<int> cancelled{0};
  run(
      2,
      [&](Communicator&) {
        return engine_of([&](const Request&) {
          ++begun;
          return Script{.advance = [](bool) -> Result<bool> { return false; },
                        .cancel = [&cancelled] { ++cancelled; }};
        });
      },
      [&begun](Communicator& world) {
        std::vector<float> data(100);
        Handle handle = world.start({.operation = Operation::kAllreduce,
                                     .input = data.data(),
                                     .output = data.data(),
                                     .count = data.size(),
                                     .type = DataType::kFloat32,
                                     .by = soon()});
        while (begun < 2 && !handle.poll()) std::this_thread::yield();
        world.close();
        EXPECT_EQ(handle.wait().error().code, ErrorCode::kClosed);
      });
  EXPECT_EQ(cancelled, 2);
}

INSTANTIATE_TEST_SUITE_P(All, External,
                         testing::Values(Network::kInProcess, Network::kShm, Network::kTcp,
                                         Network::kUnevenHosts),
                         [](const testing::TestParamInfo<Network>& network) {
                           return name_of(network.param);
                         });

}  // namespace
}  // namespace tally::collective
