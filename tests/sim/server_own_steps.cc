#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "optimizer/update_rule.h"
#include "server/protocol/message.h"
#include "sim/server_cluster.h"
#include "sim/server_exchange_run.h"

// The steps of workers with home=server that do not wait for each other: the copy that a worker
// updates between reads, and the steps that the warm-up of a codec counts.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

// The elements of all parameters.
std::vector<double> elements_in_double(const ServerExchange& exchange) {
  std::vector<double> elements;
  for (std::size_t p = 0; p < kParameters; ++p) {
    const exchange::RealSpan values{.type = exchange.type(p), .bytes = exchange.values(p)};
    values.visit([&]<typename T>(std::span<T> all) {
      elements.insert(elements.end(), all.begin(), all.end());
    });
  }
  return elements;
}

// Gradients from 0.5 to 1.5, so that a sum of many is far from 0.
double gradient_at(std::uint64_t step, std::size_t element) {
  return 0.5 + static_cast<double>((element * 13 + step * 7) % 17) / 16;
}

Result<void> make_known_step(ServerExchange& exchange, std::uint64_t step) {
  TALLY_TRY(exchange.begin());
  std::size_t element = 0;
  for (std::size_t p = 0; p < kParameters; ++p) {
    const exchange::RealSpan gradient{.type = exchange.type(p), .bytes = exchange.gradient(p)};
    gradient.visit([&]<typename T>(std::span<T> all) {
      for (T& value : all) value = static_cast<T>(gradient_at(step, element++));
    });
    TALLY_TRY(exchange.ready(p));
  }
  TALLY_TRY(exchange.complete({.samples = 1, .weight = 1, .rates = {kStepRate}}));
  return {};
}

// One worker that has all values and makes the same steps.
class SequentialTraining {
 public:
  SequentialTraining(const OptimizerSpec& optimizer, std::vector<double> values)
      : optimizer_(optimizer), values_(std::move(values)) {
    for (std::vector<double>& array : state_)
      array.assign(values_.size(), optimizer::initial_state(optimizer_));
  }

  void step(double rate) {
    std::vector<double> gradient(values_.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = gradient_at(steps_, i);
    optimizer::Segment<double> segment{.parameters = values_, .gradient = gradient, .state = {}};
    for (std::size_t k = 0; k < state_.size(); ++k) segment.state[k] = state_[k];
    optimizer::update(optimizer_, {.step = ++steps_, .rate = rate}, segment);
  }
  const std::vector<double>& values() const { return values_; }

 private:
  const OptimizerSpec optimizer_;
  std::vector<double> values_;
  std::array<std::vector<double>, 2> state_;
  std::uint64_t steps_ = 0;
};

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// Plain SGD, and other optimizers until the first read: the own copy has the values of the servers.
// At every read it gets them. After a read its optimizer state need not be that of the servers, but
// the copy follows them: it is off by at most half of the distance moved since the read.
TEST(SimServerOwnCopy, FollowsTheServersOfASingleWorker) {
  constexpr std::uint64_t kFetch = 4;
  for (const OptimizerSpec& optimizer :
       {sgd({.rate = kStepRate}), sgd({.rate = kStepRate, .momentum = 0.9}),
        sgd({.rate = kStepRate, .momentum = 0.9, .nesterov = true}), adagrad({.rate = kStepRate}),
        adam({.rate = kStepRate})}) {
    SCOPED_TRACE(to_string(optimizer));
    const ServerRun run{
        .plan = {"own", "update=asp:fetch=4", false, optimizer}, .workers = 1, .is_small = true};
    ServedCluster cluster({});
    Trained trained;
    const auto results = cluster.run([&](ServedWorker& me) -> Result<void> {
      TALLY_TRY(make_exchange(me, run, trained));
      std::vector<double> last_read = elements_in_double(*trained.exchange);
      SequentialTraining expected(optimizer, last_read);
      for (std::uint64_t step = 1; step <= 3 * kFetch; ++step) {
        TALLY_TRY(make_known_step(*trained.exchange, step - 1));
        expected.step(kStepRate);
        const std::vector<double> own = elements_in_double(*trained.exchange);
        const double off = largest_difference(own, expected.values());
        const double moved = largest_difference(expected.values(), last_read);
        const bool is_exact =
            optimizer::state_arrays(optimizer) == 0 || step < kFetch || step % kFetch == 0;
        EXPECT_LE(off, is_exact ? 1e-5 : moved / 2) << "step " << step;
        if (step % kFetch == 0) last_read = own;
      }
      return {};
    });
    ASSERT_TRUE(results[0].has_value()) << to_string(results[0].error());
  }
}

// Two workers, one of which pushes nothing. asp:fetch= and plain ssp: the worker moves its own copy
// as servers do with gradients that are one update late. ssp with another optimizer: it reads the
// servers' values in every step, so that no gradient is late. docs/policies.md has the numbers.
TEST(SimServerOwnCopy, MovesByTheShareOfAWorkerUntilItReads) {
  struct Case {
    std::string update;
    OptimizerSpec optimizer;
    OptimizerSpec in_turns;  // as two asynchronous workers apply it
    double factor = 1;       // of the learning rate
  };
  const OptimizerSpec plain = sgd({.rate = kStepRate});
  const OptimizerSpec momentum = sgd({.rate = kStepRate, .momentum = 0.9});
  const OptimizerSpec less_momentum = sgd({.rate = kStepRate, .momentum = 0.4});
  const OptimizerSpec with_adam = adam({.rate = kStepRate});
  const OptimizerSpec less_beta1 = adam({.rate = kStepRate, .beta1 = 0.8});
  const Case cases[] = {{"update=asp:fetch=5", plain, plain, 1.0 / 3},
                        {"update=asp:fetch=5", momentum, less_momentum, 2},
                        {"update=asp:fetch=5", with_adam, less_beta1, std::sqrt(1.0 / 3)},
                        {"update=ssp:5", plain, plain, 1.0 / 3},
                        {"update=ssp:5", momentum, less_momentum, 3},
                        {"update=ssp:5", with_adam, less_beta1, std::sqrt(1.0 / 2)}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.update + " " + to_string(each.optimizer));
    const ServerRun run{.plan = {"own", each.update, false, each.optimizer}, .is_small = true};
    ServedCluster cluster({.workers = 2});
    std::vector<Trained> trained(2);
    const auto results = cluster.run([&](ServedWorker& me) -> Result<void> {
      Trained& own = trained[static_cast<std::size_t>(me.rank())];
      TALLY_TRY(make_exchange(me, run, own));
      if (me.rank() == 1) return me.sleep(1s);
      ServerExchange& exchange = *own.exchange;
      SequentialTraining expected(each.in_turns, elements_in_double(exchange));
      for (std::uint64_t step = 0; step < 4; ++step) {
        TALLY_TRY(make_known_step(exchange, step));
        expected.step(kStepRate * each.factor);
        EXPECT_LE(largest_difference(elements_in_double(exchange), expected.values()), 1e-5)
            << "step " << step;
      }
      return {};
    });
    for (const auto& result : results) ASSERT_TRUE(result.has_value()) << to_string(result.error());
  }
}

// N gradients are a step, also where each of them, or every second one, makes a version. dgc sends
// at least 1/16 of the values in the first half of its warm-up.
TEST(SimServerWarmUp, CountsStepsOfAllWorkers) {
  constexpr int kWorkers = 4;
  constexpr std::size_t kEarlySteps = 6;
  struct Case {
    std::string plan;
    std::size_t early_bytes;  // of a push in the early steps, at least
    std::size_t steps_in_push = 1;
  };
  for (const Case& each : {Case{"update=asp codec=int8:warmup=6", 6000},
                           Case{"update=asp codec=dgc:0.001,warmup=12", 350},
                           Case{"update=asp:push=2 codec=int8:warmup=6", 6000, 2},
                           Case{"update=ssp:2 codec=int8:warmup=6", 6000},
                           Case{"update=kasync:2 codec=int8:warmup=6", 6000},
                           Case{"update=kasync:2 codec=dgc:0.001,warmup=12", 350}}) {
    SCOPED_TRACE(each.plan);
    const ServerRun run{
        .plan = {"warmup", each.plan, false}, .workers = kWorkers, .steps = 16, .is_small = true};
    ServedCluster cluster({.workers = kWorkers});
    std::vector<Trained> trained(kWorkers);
    std::size_t early = 0;
    const auto results = cluster.run([&](ServedWorker& me) {
      me.transport().on_traffic = [&](server::NodeId, const server::MessageHeader& header,
                                      bool sent) {
        if (sent && server::is_gradient(header) && header.payload_bytes >= each.early_bytes)
          ++early;
      };
      return train(me, run, trained[static_cast<std::size_t>(me.rank())]);
    });
    for (const auto& result : results) ASSERT_TRUE(result.has_value()) << to_string(result.error());
    // A worker learns of the last early version after the gradient that it has begun.
    const std::size_t expected = kEarlySteps * kWorkers / each.steps_in_push;
    EXPECT_GE(early, expected);
    EXPECT_LE(early, expected + kWorkers);
  }
}

}  // namespace
}  // namespace tally::sim
