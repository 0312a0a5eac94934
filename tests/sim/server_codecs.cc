#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "server/testing/test_follower.h"
#include "sim/server_cluster.h"

// Synchronous workers that receive averages, while servers and links are lost.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;
using server::test::encoded;
using server::test::Follower;

constexpr std::size_t kCount = 700;
constexpr std::uint64_t kSteps = 16;
constexpr int kWorkers = 3;
constexpr double kRate = 0.05;

server::TableSpec table_of(const std::string& codec) {
  return {.name = "weights",
          .count = kCount,
          .optimizer = adam({.rate = kRate}),
          .plan = "update=bsp",
          .workers = kWorkers,
          .seed = 3,
          .codec = codec,
          .first_element = 500};
}

std::vector<std::byte> message_of(const server::TableSpec& spec, int rank, std::uint64_t step) {
  Rng rng(1 + step * 100 + static_cast<std::uint64_t>(rank));
  std::vector<float> gradient(kCount);
  for (float& value : gradient) value = static_cast<float>(2 * rng.uniform() - 1);
  return encoded(spec, gradient,
                 {.seed = spec.seed, .step = step, .rank = static_cast<std::uint32_t>(rank)});
}

std::vector<float> expected_of(const server::TableSpec& spec) {
  Follower alone(spec, kCount);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    std::vector<std::vector<std::byte>> messages;
    std::vector<double> weights;
    for (int rank = 0; rank < kWorkers; ++rank) {
      messages.push_back(message_of(spec, rank, step));
      weights.push_back(rank + 1);
    }
    alone.update(messages, weights, step, kRate);
  }
  return alone.values();
}

struct Told {
  int averages = 0;
  int values = 0;
};

Result<void> train(ServedWorker& me, const server::TableSpec& spec, Told& told) {
  TALLY_TRY(me.sleep_until(100ms, [&] { return me.node().membership().workers == kWorkers; }));
  TALLY_TRY(const server::TableId table, me.define(spec));
  Follower own(spec, kCount);
  const server::Client::PartRange range{.table = table, .first = 0, .count = 1};
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const std::vector<std::byte> bytes = message_of(spec, me.rank(), step);
    const std::vector<std::span<const std::byte>> messages = {bytes};
    std::vector<server::Client::Average> averages(1);
    TALLY_TRY(me.sleep(2ms));
    TALLY_TRY(me.wait(me.node().push_average(
        range, {.clock = step + 1, .version = step, .weight = me.rank() + 1.0, .rate = kRate},
        {.least_version = step + 1}, messages, std::as_writable_bytes(std::span(own.values())),
        averages)));
    ++(averages[0].is_average ? told.averages : told.values);
    if (averages[0].is_average) {
      own.follow(averages[0].bytes, step, kRate);
      continue;
    }
    for (const int array : {0, 1})
      TALLY_TRY(me.wait(
          me.node().read_state(range, array, std::as_writable_bytes(std::span(own.state(array))))));
  }
  std::vector<float> pulled(kCount);
  TALLY_TRY(me.wait(
      me.node().pull(range, {.least_version = kSteps}, std::as_writable_bytes(std::span(pulled)))));
  EXPECT_EQ(own.values(), pulled);
  EXPECT_EQ(own.values(), expected_of(spec));
  return {};
}

TEST(SimServerCodecs, WorkersInStepHaveTheBitsOfServersWhoeverIsLost) {
  for (const char* const codec : {"sign:64", "topk:0.05"}) {
    Told told;
    for (int moment = 0; moment < 24; ++moment) {
      SCOPED_TRACE(testing::Message() << codec << ", moment " << moment);
      const server::TableSpec spec = table_of(codec);
      ServedClusterOptions options{.servers = 3,
                                   .workers = kWorkers,
                                   .replicas = 2,
                                   .seed = static_cast<std::uint64_t>(moment),
                                   .conditions = {.jitter = 500us}};
      options.breaks = {{.one = 1 + moment % 3, .other = 4 + moment % kWorkers, .at = 25ms}};
      ServedCluster cluster(options);
      cluster.faults().kill({.rank = cluster.server(moment % 3), .at = 20ms + moment * 1170us});
      for (const auto& result :
           cluster.run([&](ServedWorker& me) { return train(me, spec, told); }))
        EXPECT_TRUE(result.has_value()) << to_string(result.error());
    }
    // Both directions are lost.
    EXPECT_GT(told.averages, 24 * 3);
    EXPECT_GT(told.values, 0);
  }
}

}  // namespace
}  // namespace tally::sim
