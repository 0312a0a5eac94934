#include "exchange/make_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "collective/test_jobs.h"
#include "exchange/auto_codec/auto_codec.h"

namespace tally::exchange {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The events of rank 0 while codec=auto chooses for a matrix, over a slow wire.
std::vector<std::string> events_of_auto(const OptimizerSpec& optimizer) {
  std::vector<std::string> events;
  collective::run_ranks(collective::Network::kTwoHosts, 2, [&](Job& job) {
    ExchangeOptions options{
        .plan = plan::parse_plan("codec=auto").value(),
        .update = {.parameters = {{.name = "w", .shape = {300, 500}}}, .optimizers = {optimizer}}};
    options.update.wire = codec::WireCost{.seconds_per_byte = 1e-3, .seconds_per_message = 1e-3};
    options.update.tries_codecs = false;
    options.initial = [](std::size_t, DataType, std::span<std::byte> values) {
      std::fill(values.begin(), values.end(), std::byte{0});
    };
    if (job.rank() == 0)
      options.update.on_event = [&](const std::string& event) { events.push_back(event); };
    const auto exchange = make_exchange(job.world(), std::move(options));
    ASSERT_TRUE(exchange.has_value()) << exchange.error().message;
    for (int step = 0; step <= static_cast<int>(AutoCodec::kSteps); ++step) {
      ASSERT_TRUE((*exchange)->begin().has_value());
      const std::span<std::byte> gradient = (*exchange)->gradient(0);
      std::fill_n(reinterpret_cast<float*>(gradient.data()), gradient.size() / sizeof(float), 0.1F);
      ASSERT_TRUE((*exchange)->ready(0).has_value());
      ASSERT_TRUE((*exchange)->complete({.samples = 1, .weight = 1, .rates = {0.01}}).has_value());
    }
    ASSERT_TRUE(job.world().barrier().has_value());
  });
  return events;
}

TEST(MakeExchange, AutoDoesNotChooseFactorsForOptimizersThatSquareGradients) {
  EXPECT_THAT(events_of_auto(sgd({.rate = 0.01})), ElementsAre(HasSubstr("powersgd:4")));
  EXPECT_THAT(events_of_auto(adam({.rate = 0.01})), ElementsAre(Not(HasSubstr("powersgd"))));
}

}  // namespace
}  // namespace tally::exchange
