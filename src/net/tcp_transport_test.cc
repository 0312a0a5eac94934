#include "net/tcp_transport.h"

#include <future>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "net/mesh.h"
#include "net/transport_conformance.h"
#include "soon.h"

namespace tally::net {
namespace {

// Ranks on `host`, connected as in a job, with one thread each.
std::vector<std::unique_ptr<Transport>> make_over(const std::string& host,
                                                  const std::optional<Secret>& secret, int size) {
  std::vector<Listener> listeners;
  std::vector<Address> addresses;
  for (int rank = 0; rank < size; ++rank) {
    auto listener = Listener::bind({.host = host});
    if (!listener) return {};
    addresses.push_back(listener->address());
    listeners.push_back(*std::move(listener));
  }
  std::vector<std::unique_ptr<Transport>> transports(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        auto streams = connect_mesh(
            listeners[static_cast<std::size_t>(rank)],
            {.rank = rank, .generation = 1, .addresses = addresses, .secret = secret}, soon());
        ASSERT_TRUE(streams.has_value()) << to_string(streams.error());
        auto transport = TcpTransport::make({.rank = rank, .generation = 1}, *std::move(streams));
        ASSERT_TRUE(transport.has_value()) << to_string(transport.error());
        transports[static_cast<std::size_t>(rank)] = *std::move(transport);
      });
    }
  }
  return transports;
}

Secret some_secret() {
  Secret secret;
  secret.bytes.fill(std::byte{42});
  return secret;
}

const auto kTcpFactories = testing::Values(
    TransportFactory{.name = "IPv4",
                     .make = [](int size) { return make_over("127.0.0.1", {}, size); }},
    TransportFactory{.name = "IPv6", .make = [](int size) { return make_over("::1", {}, size); }},
    TransportFactory{.name = "Tls",
                     .make = [](int size) { return make_over("127.0.0.1", some_secret(), size); }});
INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformance, kTcpFactories, factory_name);
INSTANTIATE_TEST_SUITE_P(Tcp, RealTimeTransportConformance, kTcpFactories, factory_name);

}  // namespace
}  // namespace tally::net
