#include "server/link/socket_transport.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <mutex>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "group/reporter.h"

namespace tally::server {
namespace {

using namespace std::chrono_literals;

std::vector<std::byte> pattern(std::size_t bytes, std::uint8_t seed) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(i * 7 + seed);
  return made;
}

// Records received messages. The other nodes of these tests extend it.
class Ear : public Node {
 public:
  void on_message(NodeId from, const Message& message) override {
    const std::lock_guard lock(mutex_);
    heard_.push_back({from, message.header,
                      std::vector(message.payload.begin(), message.payload.end()), message.stays});
    changed_.notify_all();
  }
  std::span<std::byte> place(NodeId /*from*/, const MessageHeader& header) override {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(header.sequence);
    return found == places_.end() ? std::span<std::byte>() : found->second;
  }
  void on_linked(NodeId peer) override { note(linked_, peer); }
  void on_lost(NodeId peer, const Error& why) override {
    {
      const std::lock_guard lock(mutex_);
      why_ = why;
    }
    note(lost_, peer);
  }
  void settle(TimePoint /*now*/) override { ++settled; }

  struct Heard {
    NodeId from;
    MessageHeader header;
    std::vector<std::byte> payload;
    bool stays;
  };
  // Waits for the next message for at most ten seconds.
  std::optional<Heard> next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 60s, [&] { return !heard_.empty(); })) return std::nullopt;
    Heard first = std::move(heard_.front());
    heard_.pop_front();
    return first;
  }
  bool linked(NodeId peer, int times = 1) { return wait(linked_, peer, times); }
  bool lost(NodeId peer, int times = 1) { return wait(lost_, peer, times); }
  bool has_lost(NodeId peer) {
    const std::lock_guard lock(mutex_);
    return lost_[peer] > 0;
  }
  Error why() {
    const std::lock_guard lock(mutex_);
    return why_;
  }
  void expect(std::uint64_t sequence, std::span<std::byte> place) {
    const std::lock_guard lock(mutex_);
    places_[sequence] = place;
  }
  std::atomic<int> settled{0};

 private:
  void note(std::map<NodeId, int>& counts, NodeId peer) {
    const std::lock_guard lock(mutex_);
    ++counts[peer];
    changed_.notify_all();
  }
  bool wait(std::map<NodeId, int>& counts, NodeId peer, int times) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, [&] { return counts[peer] >= times; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Heard> heard_;
  std::map<NodeId, int> linked_;
  std::map<NodeId, int> lost_;
  std::map<std::uint64_t, std::span<std::byte>> places_;
  Error why_;
};

// Returns every payload, into the sender's shared memory where it provides some.
class Echo final : public Ear {
 public:
  explicit Echo(NodeTransport& transport) : transport_(transport) {}
  void on_message(NodeId from, const Message& message) override {
    Ear::on_message(from, message);
    MessageHeader answer{.kind = MessageKind::kAnswer, .sequence = message.header.sequence};
    if (message.header.kind != MessageKind::kPushPull) return;
    if (!message.reply.empty()) {
      std::memcpy(message.reply.data(), message.payload.data(), message.payload.size());
      return transport_.send_written(from, answer, message.payload.size());
    }
    transport_.send(from, answer, {message.payload.begin(), message.payload.end()});
  }

 private:
  NodeTransport& transport_;
};

struct Party {
  std::unique_ptr<SocketTransport> transport;
  std::unique_ptr<Ear> node;
  ~Party() {
    if (transport) transport->stop();
  }
};

Secret secret() {
  Secret made;
  made.bytes.fill(std::byte{42});
  return made;
}

struct OptionsCase {
  std::string name;
  TransportKind transport;
  bool secret;
};

std::ostream& operator<<(std::ostream& out, const OptionsCase& of) { return out << of.name; }

class SocketTransportOver : public testing::TestWithParam<OptionsCase> {
 protected:
  void start(Party& party, Role role, TransportKind transport = TransportKind::kAuto) {
    SocketTransportOptions options{.role = role};
    if (role != Role::kWorker) options.listen = net::Address{"127.0.0.1", 0};
    if (GetParam().secret) options.secret = secret();
    options.transport = transport;
    options.threads = 2;
    options.last_words = 60s;
    auto made = SocketTransport::make(options, {});
    ASSERT_TRUE(made.has_value()) << made.error().message;
    party.transport = *std::move(made);
    if (role == Role::kServer) {
      party.node = std::make_unique<Echo>(*party.transport);
    } else {
      party.node = std::make_unique<Ear>();
    }
    party.transport->start(*party.node);
  }

  // Joins and sets the node's number directly, in place of a directory.
  void join(Party& party, NodeId number) {
    const auto where = group::address_from(directory_.transport->address());
    const auto joined = party.transport->join(*where, SteadyClock().after(60s));
    ASSERT_TRUE(joined.has_value()) << joined.error().message;
    ASSERT_TRUE(directory_.node->linked(number));
    directory_.transport->send(number, {.kind = MessageKind::kView, .part = number}, {});
    const auto view = party.node->next();
    ASSERT_TRUE(view.has_value());
    ASSERT_EQ(party.transport->id(), number);
  }

  void SetUp() override {
    start(directory_, Role::kDirectory);
    start(server_, Role::kServer);
    start(worker_, Role::kWorker, GetParam().transport);
    join(server_, 1);
    join(worker_, 2);
    info_ = server_.transport->info();
    info_.id = 1;
    worker_.transport->connect(info_);
    ASSERT_TRUE(worker_.node->linked(1));
    ASSERT_TRUE(server_.node->linked(2));
  }

  Party directory_;
  Party server_;
  Party worker_;
  ServerInfo info_;
};

TEST_P(SocketTransportOver, PayloadsOfEverySizeComeBack) {
  std::uint64_t sequence = 0;
  for (const std::size_t bytes : {0UL, 1UL, 112UL, 8191UL, 8192UL, 262144UL, kMaxPayloadBytes}) {
    const auto sent = pattern(bytes, static_cast<std::uint8_t>(bytes));
    std::vector<std::byte> back(bytes);
    worker_.node->expect(++sequence, back);
    worker_.transport->send_from(1, {.kind = MessageKind::kPushPull, .sequence = sequence}, sent,
                                 back);
    const auto answer = worker_.node->next();
    ASSERT_TRUE(answer.has_value()) << bytes;
    EXPECT_EQ(answer->header.sequence, sequence);
    EXPECT_EQ(answer->header.payload_bytes, bytes);
    EXPECT_TRUE(back == sent) << bytes;
  }
}

TEST_P(SocketTransportOver, ShownMemoryIsUsedWhereItLies) {
  const std::size_t bytes = std::size_t{1} << 20;
  const auto sent = worker_.transport->allocate(bytes);
  const auto back = worker_.transport->allocate(bytes);
  ASSERT_TRUE(sent.has_value() && back.has_value());
  const auto values = pattern(bytes, 3);
  std::copy(values.begin(), values.end(), sent->begin());
  const std::uint64_t before = worker_.transport->counters().bytes_sent.load();
  worker_.node->expect(9, *back);
  worker_.transport->send_from(1, {.kind = MessageKind::kPushPull, .sequence = 9}, *sent, *back);
  const auto answer = worker_.node->next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(std::equal(back->begin(), back->end(), values.begin()));
  EXPECT_EQ(answer->payload.size(), bytes);
  const auto heard = server_.node->next();
  ASSERT_TRUE(heard.has_value());
  const bool by_memory = GetParam().transport == TransportKind::kShm;
  EXPECT_EQ(heard->stays, by_memory);
  if (by_memory) {
    EXPECT_LT(worker_.transport->counters().bytes_sent.load() - before, 4096U);
  }
}

TEST_P(SocketTransportOver, ManyMessagesArriveInOrder) {
  constexpr std::uint64_t kCount = 3000;
  for (std::uint64_t i = 1; i <= kCount; ++i) {
    worker_.transport->send(1, {.kind = MessageKind::kPushPull, .sequence = i},
                            pattern(i % 5 * 1000, static_cast<std::uint8_t>(i)));
  }
  for (std::uint64_t i = 1; i <= kCount; ++i) {
    const auto answer = worker_.node->next();
    ASSERT_TRUE(answer.has_value()) << i;
    ASSERT_EQ(answer->header.sequence, i);
    ASSERT_TRUE(answer->payload == pattern(i % 5 * 1000, static_cast<std::uint8_t>(i)));
  }
}

TEST_P(SocketTransportOver, DroppedAndReachedAgainIsLostAndLinkedAgain) {
  worker_.transport->disconnect(1);
  EXPECT_TRUE(worker_.node->lost(1));
  EXPECT_TRUE(server_.node->lost(2));
  worker_.transport->send(1, {.kind = MessageKind::kPush}, {});  // no receiver
  worker_.transport->connect(info_);
  EXPECT_TRUE(worker_.node->linked(1, 2));
  EXPECT_TRUE(server_.node->linked(2, 2));
}

// disconnect_then() calls back once the peer on the same host can no longer access shared memory.
TEST_P(SocketTransportOver, ADroppedPeerReleasesMemoryWhenItHasClosed) {
  const auto memory = worker_.transport->allocate(1 << 20);
  ASSERT_TRUE(memory.has_value());
  worker_.transport->send_from(1, {.kind = MessageKind::kPush}, *memory, {});
  ASSERT_TRUE(server_.node->next().has_value());
  std::promise<bool> released;
  worker_.transport->disconnect_then(1, [&] { released.set_value(server_.node->has_lost(2)); });
  auto heard = released.get_future();
  ASSERT_EQ(heard.wait_for(60s), std::future_status::ready);
  if (GetParam().transport == TransportKind::kShm) {
    EXPECT_TRUE(heard.get());
  }
  EXPECT_TRUE(worker_.node->lost(1));
  // No link is left, so the callback runs at once.
  bool at_once = false;
  worker_.transport->disconnect_then(1, [&] { at_once = true; });
  EXPECT_TRUE(at_once);
}

TEST_P(SocketTransportOver, WhatWasSentBeforeTheEndArrives) {
  worker_.transport->send(1, {.kind = MessageKind::kLeave, .sequence = 77}, pattern(8 << 20, 1));
  worker_.transport->stop();
  const auto heard = server_.node->next();
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->header.sequence, 77U);
  EXPECT_TRUE(server_.node->lost(2));
  EXPECT_TRUE(directory_.node->lost(2));
}

TEST_P(SocketTransportOver, AServerThatEndsIsLost) {
  server_.transport->stop();
  EXPECT_TRUE(worker_.node->lost(1));
  EXPECT_EQ(worker_.node->why().code, ErrorCode::kPeerLost);
  EXPECT_TRUE(directory_.node->lost(1));
}

INSTANTIATE_TEST_SUITE_P(Ways, SocketTransportOver,
                         testing::Values(OptionsCase{"tcp", TransportKind::kTcp, false},
                                         OptionsCase{"shm", TransportKind::kShm, false},
                                         OptionsCase{"tls", TransportKind::kTls, true}),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace tally::server
