#include "net/transport_conformance.h"

#include <deque>
#include <memory>

#include "sim/sim_transport.h"

namespace tally::net {
namespace {

// The networks live as long as the factory, and so longer than the transports.
TransportFactory simulated(std::string name, const sim::Conditions& conditions) {
  const auto networks = std::make_shared<std::deque<sim::Network>>();
  return {.name = std::move(name), .make = [networks, conditions](int size) {
            std::vector<std::unique_ptr<Transport>> transports;
            sim::Network& network = networks->emplace_back(size, 1, conditions);
            for (Rank rank = 0; rank < size; ++rank) {
              transports.push_back(std::make_unique<sim::SimTransport>(network, rank));
            }
            return transports;
          }};
}

constexpr std::chrono::microseconds kMicrosecond{1};

INSTANTIATE_TEST_SUITE_P(Sim, TransportConformance,
                         testing::Values(simulated("Calm", {.link = {.latency = kMicrosecond,
                                                                     .bytes_per_second = 1e12}}),
                                         simulated("Jittery", {.link = {.latency = kMicrosecond,
                                                                        .bytes_per_second = 1e12},
                                                               .jitter = 5 * kMicrosecond,
                                                               .window_bytes = 100'000})),
                         factory_name);

}  // namespace
}  // namespace tally::net
