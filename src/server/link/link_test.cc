#include "server/link/link.h"

#include <sys/socket.h>

#include <array>

#include <gtest/gtest.h>

#include "server/link/socket_transport.h"

namespace tally::server {
namespace {

class LinkTest : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    peer_ = Descriptor(ends[0]);
    link_ = std::make_unique<Link>(Link::Config{.peer = 3, .backlog_bytes = kBacklog},
                                   net::plain_stream(Descriptor(ends[1])), shared_);
  }

  void ask(std::uint64_t sequence) {
    const EncodedHeader header = encode({.kind = MessageKind::kPull, .sequence = sequence});
    ASSERT_EQ(::send(peer_.descriptor(), header.data(), header.size(), 0),
              static_cast<ssize_t>(header.size()));
  }

  std::size_t read_away() {
    std::vector<std::byte> bytes(std::size_t{1} << 20);
    const ssize_t count = ::recv(peer_.descriptor(), bytes.data(), bytes.size(), 0);
    return count > 0 ? static_cast<std::size_t>(count) : 0;
  }

  static constexpr std::size_t kBacklog = std::size_t{1} << 20;
  Link::Shared shared_;
  Descriptor peer_;
  std::unique_ptr<Link> link_;
};

TEST_F(LinkTest, APeerThatDoesNotReadChokesItUntilItDoes) {
  for (int i = 0; i < 3; ++i)
    link_->send({.kind = MessageKind::kAnswer}, std::vector<std::byte>(kBacklog));
  EXPECT_TRUE(link_->choked());
  std::size_t read = 0;
  while (!link_->flushed()) {
    read += read_away();
    ASSERT_TRUE(link_->flush(std::size_t{1} << 30));
  }
  read += read_away();
  while (const std::size_t more = read_away()) read += more;
  EXPECT_FALSE(link_->choked());
  EXPECT_EQ(read, 3 * (kBacklog + kHeaderBytes));
  EXPECT_EQ(shared_.counters.bytes_sent.load(), read);
}

// The socket fills up long before the backlog limit. From then on the link writes nothing, and the
// queued headers add up to the limit.
TEST_F(LinkTest, ManySmallAnswersThatNobodyReadsChokeIt) {
  constexpr std::size_t kMost = 4 * kBacklog / kHeaderBytes;
  std::size_t count = 0;
  for (; count < kMost && !link_->choked(); ++count)
    link_->send({.kind = MessageKind::kAnswer}, {});
  EXPECT_LT(count, kMost);
  EXPECT_GT(count, 1000U);
}

// Answers every message at once, every `payload_every`-th with a payload. Records how much the link
// has written by then.
class Answerer final : public LinkReceiver::Sink {
 public:
  Answerer(Link& link, const LinkCounters& counters, std::uint64_t payload_every)
      : link_(link), counters_(counters), payload_every_(payload_every) {}
  std::span<std::byte> place(const MessageHeader&) override { return {}; }
  bool deliver(const Message& message) override {
    const bool has_payload = message.header.sequence % payload_every_ == 0;
    link_.send({.kind = MessageKind::kAnswer, .sequence = message.header.sequence},
               std::vector<std::byte>(has_payload ? 100 : 0));
    written.push_back(counters_.bytes_sent.load());
    return true;
  }
  std::vector<std::uint64_t> written;

 private:
  Link& link_;
  const LinkCounters& counters_;
  const std::uint64_t payload_every_;
};

TEST_F(LinkTest, AnswersWithoutPayloadWaitForEachOtherUntilTheBurstIsOver) {
  for (std::uint64_t i = 1; i <= 3; ++i) ask(i);
  Answerer answerer(*link_, shared_.counters, 1000);
  EXPECT_EQ(link_->receive(answerer, kBacklog).messages, 3U);
  EXPECT_EQ(answerer.written, std::vector<std::uint64_t>(3, 0));
  EXPECT_EQ(read_away(), 3 * kHeaderBytes);
  // Outside of a burst the link writes at once.
  link_->send({.kind = MessageKind::kAnswer}, {});
  EXPECT_EQ(read_away(), kHeaderBytes);
}

TEST_F(LinkTest, AnswersOfALongBurstComeWholeAndInOrder) {
  constexpr std::uint64_t kCount = 60;
  for (std::uint64_t i = 1; i <= kCount; ++i) ask(i);
  Answerer answerer(*link_, shared_.counters, 17);
  EXPECT_EQ(link_->receive(answerer, kBacklog).messages, kCount);
  EXPECT_GT(answerer.written[30], 0U);
  EXPECT_TRUE(link_->flushed());
  std::vector<std::byte> bytes(std::size_t{1} << 20);
  const ssize_t count = ::recv(peer_.descriptor(), bytes.data(), bytes.size(), 0);
  ASSERT_EQ(count, static_cast<ssize_t>(kCount * kHeaderBytes + 3 * 100));
  std::size_t at = 0;
  for (std::uint64_t i = 1; i <= kCount; ++i) {
    const auto header = decode(std::span(bytes).subspan(at).first<kHeaderBytes>());
    ASSERT_TRUE(header.has_value());
    EXPECT_EQ(header->sequence, i);
    at += kHeaderBytes + header->payload_bytes;
  }
}

TEST_F(LinkTest, WhatIsLentIsFreeOnceItIsClosed) {
  const std::vector<std::byte> lent(std::size_t{8} << 20);
  link_->send_from({.kind = MessageKind::kPush}, lent, {});
  EXPECT_FALSE(link_->flushed());
  link_->close();
  EXPECT_TRUE(link_->flushed());
  EXPECT_FALSE(link_->flush(1));
  link_->send({.kind = MessageKind::kPush}, {});  // no receiver
  EXPECT_TRUE(link_->flushed());
}

TEST_F(LinkTest, AnEndedPeerIsNoticedByWriting) {
  peer_.reset();
  link_->send({.kind = MessageKind::kPush}, {});
  EXPECT_FALSE(link_->flush(1));
  EXPECT_EQ(link_->error().code, ErrorCode::kPeerLost);
}

TEST(LoopAssignment, WorkersTakeTurnsWhateverTheirNumbersAreAndKeepTheirLoops) {
  LoopAssignment assignment;
  EXPECT_EQ(assignment.take(0, Role::kDirectory, 2), 0U);
  EXPECT_EQ(assignment.take(4, Role::kWorker, 2), 0U);
  EXPECT_EQ(assignment.take(6, Role::kWorker, 2), 1U);
  EXPECT_EQ(assignment.take(8, Role::kWorker, 2), 0U);
  EXPECT_EQ(assignment.take(6, Role::kWorker, 2), 1U);
  EXPECT_EQ(assignment.of(6, 2), 1U);
}

TEST(PayloadPool, SentMemoryIsUsedAgain) {
  PayloadPool pool;
  std::vector<std::byte> first = pool.take(kPartBytes);
  const std::byte* const where = first.data();
  pool.give(std::move(first));
  EXPECT_EQ(pool.take(kPartBytes - 100).data(), where);
  EXPECT_EQ(pool.take(10).size(), 10U);
}

}  // namespace
}  // namespace tally::server
