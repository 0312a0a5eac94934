// Four threads act as four workers on the same parts: the sum is exact for every value of
// conflict=.

#include <atomic>
#include <thread>

#include <fmt/format.h>

#include "server/testing/test_cluster.h"

namespace tally::server::test {
namespace {

constexpr int kWorkers = 4;
constexpr int kPushes = 400;
constexpr NodeId kServer = 1;

// Counts the answers by worker, and keeps the last payload.
class CountingNodeTransport final : public NodeTransport {
 public:
  void connect(const ServerInfo&) override {}
  void disconnect(NodeId) override {}
  void send(NodeId to, const MessageHeader& header, std::vector<std::byte> payload) override {
    if (header.kind != MessageKind::kAnswer) return;
    if (header.outcome != Outcome::kDone) failed_.fetch_add(1);
    answers_[to].fetch_add(1);
    const std::lock_guard lock(mutex_);
    last_ = std::move(payload);
  }
  void send_from(NodeId, const MessageHeader&, std::span<const std::byte>,
                 std::span<std::byte>) override {}
  void send_written(NodeId to, const MessageHeader& header, std::size_t) override {
    send(to, header, {});
  }
  int answers(NodeId worker) const { return answers_[worker].load(); }
  int failed() const { return failed_.load(); }
  std::vector<float> last() {
    const std::lock_guard lock(mutex_);
    return floats_of(last_);
  }

 private:
  std::array<std::atomic<int>, 16> answers_{};
  std::atomic<int> failed_{0};
  std::mutex mutex_;
  std::vector<std::byte> last_;
};

struct Shape {
  const char* conflict;
  bool is_sparse;
};

class ServerStress : public testing::TestWithParam<Shape> {};

INSTANTIATE_TEST_SUITE_P(Ways, ServerStress,
                         testing::Values(Shape{"lock", false}, Shape{"atomic", false},
                                         Shape{"accumulate", false}, Shape{"lock", true},
                                         Shape{"atomic", true}, Shape{"accumulate", true}),
                         [](const auto& way) {
                           return fmt::format("{}{}", way.param.conflict,
                                              way.param.is_sparse ? "Sparse" : "Dense");
                         });

TEST_P(ServerStress, TheSumOfPushesOfManyThreadsIsExact) {
  const Shape shape = GetParam();
  CountingNodeTransport transport;
  ServerNode server(transport, {.self = {.address = "host:1"}}, {});
  View view{.number = 1, .servers = {{.id = kServer}}, .chains = {{kServer}}};
  for (NodeId worker = 0; worker < kWorkers; ++worker)
    view.workers.push_back({.id = 2 + worker, .rank = static_cast<std::int32_t>(worker)});
  const auto say = [&](NodeId from, MessageHeader header, const std::vector<std::byte>& payload) {
    server.on_message(from, {.header = header, .payload = payload});
  };
  say(kDirectoryId, {.kind = MessageKind::kView, .part = kServer, .view = 1}, encode(view));
  TableSpec spec{.name = "t",
                 .count = 3,
                 .optimizer = sgd({.rate = 1}),
                 .plan = fmt::format("update=asp:rate=shared conflict={}", shape.conflict),
                 .workers = kWorkers};
  if (shape.is_sparse) {
    spec.kind = TableKind::kSparse;
    spec.count = 0;
    spec.dimension = 3;
  }
  const TableId table = table_id("t");
  say(2, {.kind = MessageKind::kDefine, .table = table, .view = 1, .sequence = 1}, encode(spec));
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; keys.size() < 8; ++key)
    if (part_of_key(key, 4) == 0) keys.push_back(key);

  std::vector<std::thread> threads;
  for (NodeId worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([&, from = 2 + worker] {
      for (int i = 0; i < kPushes; ++i) {
        const bool adds = i % 3 == 0;
        const float value = adds ? 1.0F : -1.0F;
        const std::vector<float> row{value, 2 * value, 3 * value};
        say(from,
            {.kind = i % 7 == 0 ? MessageKind::kPushPull : MessageKind::kPush,
             .push_kind = static_cast<std::uint8_t>(adds ? PushKind::kAdd : PushKind::kGradient),
             .table = table,
             .view = 1,
             .sequence = static_cast<std::uint64_t>(i + 2),
             .clock = static_cast<std::uint64_t>(i),
             .weight = 1,
             .rate = kWorkers},
            shape.is_sparse ? sparse_payload({keys[static_cast<std::size_t>(i) % 8]}, row)
                            : bytes_of(row));
        // Send every fifth push twice; the second copy has no effect.
        if (i % 5 == 0)
          say(from,
              {.kind = MessageKind::kPush,
               .push_kind = static_cast<std::uint8_t>(PushKind::kAdd),
               .table = table,
               .view = 1,
               .sequence = static_cast<std::uint64_t>(i + 2),
               .weight = 1},
              shape.is_sparse ? sparse_payload({keys[0]}, row) : bytes_of(row));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  server.settle(TimePoint(1));

  const int extra = (kPushes + 4) / 5;
  for (NodeId worker = 0; worker < kWorkers; ++worker)
    EXPECT_EQ(transport.answers(2 + worker), kPushes + extra + (worker == 0 ? 1 : 0));
  EXPECT_EQ(transport.failed(), 0);
  say(2, {.kind = MessageKind::kPull, .table = table, .view = 1, .sequence = 100000},
      shape.is_sparse ? sparse_payload(keys, {}) : std::vector<std::byte>());
  std::vector<float> sums(3);
  const std::vector<float> values = transport.last();
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % 3] += values[i];
  for (std::size_t d = 0; d < 3; ++d)
    EXPECT_EQ(sums[d], static_cast<float>(d + 1) * kWorkers * kPushes);
}

}  // namespace
}  // namespace tally::server::test
