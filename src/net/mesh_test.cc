#include "net/mesh.h"

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "net/greeting_exchange.h"
#include "soon.h"

namespace tally::net {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kMeshGeneration = 4;
using Streams = std::vector<std::unique_ptr<Stream>>;

wire::JobToken token_of(std::uint8_t value) {
  wire::JobToken token;
  token.fill(std::byte{value});
  return token;
}

Secret mesh_secret(std::uint8_t value) {
  Secret secret;
  secret.bytes.fill(std::byte{value});
  return secret;
}

// `size` listeners, and the options of a job that uses them.
class MeshOf {
 public:
  explicit MeshOf(int size, const std::string& host = "127.0.0.1") {
    for (int rank = 0; rank < size; ++rank) {
      auto listener = Listener::bind({.host = host});
      EXPECT_TRUE(listener.has_value());
      addresses_.push_back(listener->address());
      listeners_.push_back(*std::move(listener));
    }
  }

  MeshOptions options(Rank rank) {
    return {.rank = rank,
            .generation = kMeshGeneration,
            .token = token_of(1),
            .addresses = addresses_,
            .refused = [this](const Error& why) {
              const MutexLock lock(mutex_);
              refusals_.push_back(why);
            }};
  }

  std::future<Result<Streams>> start(MeshOptions options, Deadline by = soon()) {
    Listener& listener = listeners_[static_cast<std::size_t>(options.rank)];
    return std::async(std::launch::async, [&listener, options = std::move(options), by] {
      return connect_mesh(listener, options, by);
    });
  }

  const Address& address(Rank rank) const { return addresses_[static_cast<std::size_t>(rank)]; }

  std::vector<Error> refusals() {
    const MutexLock lock(mutex_);
    return refusals_;
  }
  // Waits until a connection is refused for a reason that contains `because`.
  testing::AssertionResult refused(const std::string& because) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      for (const Error& refusal : refusals()) {
        if (refusal.message.find(because) != std::string::npos) return testing::AssertionSuccess();
      }
      std::this_thread::yield();
    }
    return testing::AssertionFailure() << "nobody was refused because: " << because;
  }

 private:
  std::vector<Listener> listeners_;
  std::vector<Address> addresses_;
  Mutex mutex_;
  std::vector<Error> refusals_ TALLY_GUARDED_BY(mutex_);
};

void expect_streams(const Result<Streams>& streams, const std::vector<bool>& there) {
  ASSERT_TRUE(streams.has_value()) << to_string(streams.error());
  ASSERT_EQ(streams->size(), there.size());
  for (std::size_t i = 0; i < there.size(); ++i) EXPECT_EQ((*streams)[i] != nullptr, there[i]) << i;
}

// The greeting of rank `from` to rank 0.
wire::Greeting greeting_from(Rank from) {
  return {.from = from, .to = 0, .generation = kMeshGeneration, .token = token_of(1)};
}

// Sends `greeting` to `to` and returns the status in the reply.
wire::GreetingStatus verdict_on(const Address& to, const wire::Greeting& greeting,
                                std::unique_ptr<Stream>* keep = nullptr) {
  auto socket = connect(to, soon());
  EXPECT_TRUE(socket.has_value());
  auto stream = plain_stream(*std::move(socket));
  EXPECT_TRUE(write_all(*stream, wire::encode(greeting), soon()).has_value());
  wire::EncodedAnswer answer;
  EXPECT_TRUE(read_all(*stream, answer, soon()).has_value());
  if (keep != nullptr) *keep = std::move(stream);
  const auto decoded = wire::decode_answer(answer);
  EXPECT_TRUE(decoded.has_value());
  return decoded->status;
}

// Each pair of ranks shares one connection: each side reads the bytes that the other writes.
TEST(Mesh, EveryPairIsConnected) {
  for (const bool tls : {false, true}) {
    MeshOf mesh(4);
    std::vector<std::future<Result<Streams>>> ranks;
    for (Rank rank = 0; rank < 4; ++rank) {
      MeshOptions options = mesh.options(rank);
      if (tls) options.secret = mesh_secret(1);
      ranks.push_back(mesh.start(options));
    }
    std::vector<Result<Streams>> all;
    for (auto& rank : ranks) all.push_back(rank.get());
    for (std::size_t a = 0; a < 4; ++a) {
      std::vector<bool> there(4, true);
      there[a] = false;
      expect_streams(all[a], there);
      for (std::size_t b = 0; b < 4; ++b) {
        if (a == b) continue;
        const std::byte said{static_cast<unsigned char>(10 * a + b)};
        EXPECT_TRUE(write_all(*(*all[a])[b], {&said, 1}, soon()).has_value());
        std::byte heard{};
        EXPECT_TRUE(read_all(*(*all[b])[a], {&heard, 1}, soon()).has_value());
        EXPECT_EQ(heard, said);
        EXPECT_EQ((*all[a])[b]->authenticated(), tls);
      }
    }
    EXPECT_TRUE(mesh.refusals().empty());
  }
}

TEST(Mesh, OnlyWantedPairsAreConnected) {
  MeshOf mesh(3);
  const std::vector<std::vector<bool>> wanted = {
      {false, false, true}, {false, false, true}, {true, true, false}};
  std::vector<std::future<Result<Streams>>> ranks;
  for (Rank rank = 0; rank < 3; ++rank) {
    MeshOptions options = mesh.options(rank);
    options.wanted = wanted[static_cast<std::size_t>(rank)];
    ranks.push_back(mesh.start(options));
  }
  for (std::size_t rank = 0; rank < 3; ++rank) expect_streams(ranks[rank].get(), wanted[rank]);
}

TEST(Mesh, JobOfOneNeedsNobody) {
  MeshOf mesh(1);
  expect_streams(mesh.start(mesh.options(0)).get(), {false});
}

TEST(Mesh, LowestMissingRankIsNamedAtTheDeadline) {
  MeshOf mesh(4);
  const Deadline by = Deadline::after(milliseconds(1000));
  auto zero = mesh.start(mesh.options(0), by);
  auto three = mesh.start(mesh.options(3), by);
  const auto at_zero = zero.get();
  ASSERT_FALSE(at_zero.has_value());
  EXPECT_EQ(at_zero.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(at_zero.error().peer, 1);
  const auto at_three = three.get();
  ASSERT_FALSE(at_three.has_value());
  EXPECT_EQ(at_three.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(at_three.error().peer, 1);
}

TEST(Mesh, StrangersAreTurnedAwayWithTheReason) {
  MeshOf mesh(2);
  auto zero = mesh.start(mesh.options(0));
  const auto with = [](auto change) {
    wire::Greeting greeting = greeting_from(1);
    change(greeting);
    return greeting;
  };
  using wire::Greeting;
  using wire::GreetingStatus;
  const Address& to = mesh.address(0);
  EXPECT_EQ(verdict_on(to, with([](Greeting& g) { g.version = 99; })),
            GreetingStatus::kOtherVersion);
  EXPECT_EQ(verdict_on(to, with([](Greeting& g) { g.token = token_of(2); })),
            GreetingStatus::kOtherToken);
  EXPECT_EQ(verdict_on(to, with([](Greeting& g) { g.generation = 3; })),
            GreetingStatus::kOtherGeneration);
  for (const Rank from : {-1, 0, 2, 1 << 30}) {
    EXPECT_EQ(verdict_on(to, with([&](Greeting& g) { g.from = from; })),
              GreetingStatus::kOtherRank);
  }
  EXPECT_EQ(verdict_on(to, with([](Greeting& g) { g.to = 1; })), GreetingStatus::kOtherRank);
  // None of these greetings kept the real rank 1 out.
  expect_streams(mesh.start(mesh.options(1)).get(), {true, false});
  expect_streams(zero.get(), {false, true});
  EXPECT_TRUE(mesh.refused("protocol version"));
  EXPECT_TRUE(mesh.refused("another job"));
  EXPECT_TRUE(mesh.refused("generation"));
  EXPECT_EQ(mesh.refusals().size(), 8U);
}

TEST(Mesh, SecondConnectionOfARankIsRefused) {
  MeshOf mesh(3);
  auto zero = mesh.start(mesh.options(0));
  std::unique_ptr<Stream> first;
  EXPECT_EQ(verdict_on(mesh.address(0), greeting_from(1), &first), wire::GreetingStatus::kAccepted);
  EXPECT_EQ(verdict_on(mesh.address(0), greeting_from(1)), wire::GreetingStatus::kDuplicate);
  std::unique_ptr<Stream> second;
  EXPECT_EQ(verdict_on(mesh.address(0), greeting_from(2), &second),
            wire::GreetingStatus::kAccepted);
  expect_streams(zero.get(), {false, true, true});
}

// A refused rank learns of the refusal and its reason at once.
TEST(Mesh, RefusedRankFailsAtOnce) {
  MeshOf mesh(2);
  auto zero = mesh.start(mesh.options(0));
  MeshOptions stale = mesh.options(1);
  stale.generation = kMeshGeneration - 1;
  const auto refused = mesh.start(stale).get();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kRefused);
  EXPECT_EQ(refused.error().peer, 0);
  EXPECT_NE(refused.error().message.find("generation"), std::string::npos);
  expect_streams(mesh.start(mesh.options(1)).get(), {true, false});
  expect_streams(zero.get(), {false, true});
}

// Garbage, port scans, silent connections and half a greeting, all before the real rank connects.
TEST(Mesh, GarbageOnTheListenerDisturbsNobody) {
  for (const bool tls : {false, true}) {
    MeshOf mesh(2);
    MeshOptions host = mesh.options(0);
    host.greeting_limit = milliseconds(1000);
    MeshOptions caller = mesh.options(1);
    if (tls) host.secret = caller.secret = mesh_secret(1);
    auto zero = mesh.start(host);

    std::vector<Socket> strangers;
    const std::string words[] = {"", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", std::string(100000, 'x'),
                                 std::string(39, '\0')};
    for (const std::string& said : words) {
      auto socket = connect(mesh.address(0), soon());
      ASSERT_TRUE(socket.has_value());
      ::send(socket->descriptor(), said.data(), said.size(), MSG_NOSIGNAL);
      strangers.push_back(*std::move(socket));
    }
    // A port scan: connects and closes.
    ASSERT_TRUE(connect(mesh.address(0), soon()).has_value());
    EXPECT_TRUE(mesh.refused("no greeting in time"));

    expect_streams(mesh.start(caller).get(), {true, false});
    expect_streams(zero.get(), {false, true});
    EXPECT_GE(mesh.refusals().size(), 4U);
  }
}

// With more silent connections than the limit, the oldest are closed.
TEST(Mesh, FloodOfSilentConnectionsDisturbsNobody) {
  MeshOf mesh(2);
  auto zero = mesh.start(mesh.options(0));
  std::vector<Socket> strangers;
  for (int i = 0; i < 200; ++i) {
    auto socket = connect(mesh.address(0), soon());
    ASSERT_TRUE(socket.has_value());
    strangers.push_back(*std::move(socket));
  }
  EXPECT_TRUE(mesh.refused("too many"));
  expect_streams(mesh.start(mesh.options(1)).get(), {true, false});
  expect_streams(zero.get(), {false, true});
}

TEST(Mesh, WrongSecretIsRefusedAndNamed) {
  MeshOf mesh(2);
  MeshOptions host = mesh.options(0);
  host.secret = mesh_secret(1);
  MeshOptions stranger = mesh.options(1);
  stranger.secret = mesh_secret(2);
  auto zero = mesh.start(host);
  const auto refused = mesh.start(stranger).get();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kRefused);
  EXPECT_EQ(refused.error().peer, 0);
  EXPECT_NE(refused.error().message.find("secret"), std::string::npos);
  EXPECT_TRUE(mesh.refused("'tally rank 1' has another secret"));

  MeshOptions member = mesh.options(1);
  member.secret = mesh_secret(1);
  expect_streams(mesh.start(member).get(), {true, false});
  expect_streams(zero.get(), {false, true});
}

// A listener at the address of rank 0 that sends garbage or closes: the caller retries until its
// deadline.
TEST(Mesh, CallerOutlastsAnAddressThatIsNotReadyYet) {
  MeshOf mesh(2);
  auto impostor = Listener::bind({.host = "127.0.0.1"});
  ASSERT_TRUE(impostor.has_value());
  MeshOptions options = mesh.options(1);
  options.addresses[0] = impostor->address();
  auto one = mesh.start(options);
  ASSERT_TRUE(impostor->accept(soon()).has_value());  // and closed at once
  auto socket = impostor->accept(soon());
  ASSERT_TRUE(socket.has_value());
  Rank caller = kNoRank;
  GreetingExchange host(plain_stream(*std::move(socket)),
                        GreetingExchange::Host{
                            .greeting_bytes = wire::kGreetingBytes,
                            .judge = [&caller](std::span<const std::byte> bytes,
                                               GreetingExchange::Bytes& answer) -> Result<void> {
                              TALLY_TRY(const auto greeting,
                                        wire::decode_greeting(bytes.first<wire::kGreetingBytes>()));
                              caller = greeting.from;
                              const auto encoded = wire::encode(wire::GreetingAnswer{
                                  .rank = greeting.to, .generation = greeting.generation});
                              answer.assign(encoded.begin(), encoded.end());
                              return {};
                            }});
  Result<bool> met = host.advance();
  while (met && !*met) {
    wait_ready(host.stream().descriptor(), Readiness::kRead, soon());
    met = host.advance();
  }
  ASSERT_TRUE(met.has_value());
  EXPECT_EQ(caller, 1);
  expect_streams(one.get(), {true, false});
}

}  // namespace
}  // namespace tally::net
