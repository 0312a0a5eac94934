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

struct Connections {
  std::string host = "127.0.0.1";
  std::optional<Secret> secret = {};
  bool sender_thread = false;
};

// Ranks connected as in a job, with one thread each.
std::vector<std::unique_ptr<Transport>> make_over(const Connections& connections, int size) {
  std::vector<Listener> listeners;
  std::vector<Address> addresses;
  for (int rank = 0; rank < size; ++rank) {
    auto listener = Listener::bind({.host = connections.host});
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
            {.rank = rank, .generation = 1, .addresses = addresses, .secret = connections.secret},
            soon());
        ASSERT_TRUE(streams.has_value()) << to_string(streams.error());
        auto transport =
            TcpTransport::make({.rank = rank,
                                .generation = 1,
                                .options = {.sender_thread = connections.sender_thread}},
                               *std::move(streams));
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

TransportFactory factory(const std::string& name, const Connections& connections) {
  return {.name = name, .make = [connections](int size) { return make_over(connections, size); }};
}

const auto kTcpFactories = testing::Values(
    factory("IPv4", {}), factory("IPv6", {.host = "::1"}),
    factory("Tls", {.secret = some_secret()}), factory("SenderThread", {.sender_thread = true}),
    factory("TlsSenderThread", {.secret = some_secret(), .sender_thread = true}));
INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformance, kTcpFactories, factory_name);
INSTANTIATE_TEST_SUITE_P(Tcp, RealTimeTransportConformance, kTcpFactories, factory_name);

}  // namespace
}  // namespace tally::net
