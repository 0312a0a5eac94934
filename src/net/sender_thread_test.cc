#include "net/sender_thread.h"

#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "net/transport_conformance.h"
#include "soon.h"

namespace tally::net {
namespace {

// One connection, whose other end the test holds.
class SenderThreadTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    stream_ = plain_stream(Socket(ends[0]));
    output_.stream = stream_.get();
    peer_ = Socket(ends[1]);
    auto thread = SenderThread::start(
        {.budget_bytes = std::size_t{256} << 10, .notify = [this] { ++calls_; }});
    ASSERT_TRUE(thread.has_value());
    thread_ = *std::move(thread);
  }

  Letter& letter(std::size_t bytes) {
    Letter& made = letters_.emplace_back();
    made.bytes = pattern(bytes, static_cast<std::uint32_t>(letters_.size()));
    made.outgoing.payload = made.bytes;
    return made;
  }
  Letter& post(std::size_t bytes) {
    Letter& posted = letter(bytes);
    thread_->post(output_, posted.outgoing);
    return posted;
  }

  // Reads what has arrived.
  void drain() {
    std::vector<std::byte> part(std::size_t{256} << 10);
    static_cast<void>(::recv(peer_.descriptor(), part.data(), part.size(), MSG_DONTWAIT));
  }
  testing::AssertionResult until(const std::function<bool()>& done) {
    const Deadline by = soon();
    while (!done()) {
      if (by.passed(SteadyClock().now())) return testing::AssertionFailure() << "not in time";
      std::this_thread::yield();
    }
    return testing::AssertionSuccess();
  }
  static std::size_t frames_of(const Letter& sent) {
    return (sent.bytes.size() + wire::kMaxPayloadBytes - 1) / wire::kMaxPayloadBytes;
  }

  std::deque<Letter> letters_;
  Counters counters_;
  std::atomic<int> calls_{0};
  Socket peer_;
  std::unique_ptr<Stream> stream_;
  Output output_{.sender = {{.peer = 1, .generation = 1}, counters_}};
  std::unique_ptr<SenderThread> thread_;
};

constexpr std::size_t kLong = std::size_t{2} << 20;  // more than the socket holds

// As soon as the thread, which looks for messages when it starts, leaves the connection alone.
TEST_F(SenderThreadTest, ShortMessageIsSentByItsPoster) {
  EXPECT_TRUE(until([this] {
    const int before = calls_;
    const bool sent = post(100).outgoing.sent();
    drain();
    return sent && calls_ == before;
  }));
}

// The thread sends without any help, sleeps while the socket is full, and tells when it has sent.
TEST_F(SenderThreadTest, LongMessagesAreSentInOrderByTheThread) {
  const Letter& first = post(kLong);
  const Letter& second = post(100);
  const Letter& third = post(kLong);
  EXPECT_FALSE(first.outgoing.sent());
  EXPECT_FALSE(second.outgoing.sent());
  ASSERT_TRUE(until([&] {
    drain();
    return second.outgoing.sent();
  }));
  EXPECT_TRUE(first.outgoing.sent());
  ASSERT_TRUE(until([&] {
    drain();
    return third.outgoing.sent();
  }));
  ASSERT_TRUE(until([&] { return calls_ > 0; }));
  EXPECT_EQ(counters_.frames_sent, frames_of(first) + 1 + frames_of(third));
  EXPECT_EQ(counters_.payload_bytes_sent, 2 * kLong + 100);
}

// The poster may free the memory at once, wherever the message is.
TEST_F(SenderThreadTest, WithdrawnMessageIsNotTouchedAgain) {
  const Letter& first = post(kLong);
  for (int i = 0; i < 20; ++i) {
    Letter withdrawn;
    withdrawn.bytes = pattern(100000, 9);
    withdrawn.outgoing.payload = withdrawn.bytes;
    thread_->post(output_, withdrawn.outgoing);
    thread_->withdraw(output_, withdrawn.outgoing);
  }
  ASSERT_TRUE(until([&] {
    drain();
    return first.outgoing.sent();
  }));
  EXPECT_EQ(counters_.payload_bytes_sent, kLong);
}

TEST_F(SenderThreadTest, ClosedOutputReleasesItsMessages) {
  const Letter& first = post(kLong);
  const Letter& second = post(kLong);
  thread_->close(output_);
  EXPECT_TRUE(first.outgoing.sent());
  EXPECT_TRUE(second.outgoing.sent());
  stream_.reset();
}

TEST_F(SenderThreadTest, FailureReleasesMessagesAndIsReported) {
  const Letter& first = post(kLong);
  peer_.reset();
  ASSERT_TRUE(until([&] { return output_.sender.failed() && first.outgoing.sent(); }));
  EXPECT_EQ(output_.sender.failure().code, ErrorCode::kPeerLost);
  EXPECT_EQ(output_.sender.failure().peer, 1);
  ASSERT_TRUE(until([&] { return calls_ > 0; }));
  // A message that was posted before its poster knew of the failure.
  const Letter& late = post(kLong);
  ASSERT_TRUE(until([&] { return late.outgoing.sent(); }));
  const Letter& short_one = post(10);
  ASSERT_TRUE(until([&] { return short_one.outgoing.sent(); }));
}

TEST_F(SenderThreadTest, StoppedThreadLeavesTheRestToItsOwner) {
  const Letter& first = post(kLong);
  const Letter& second = post(kLong);
  thread_->stop();
  EXPECT_TRUE(output_.has_bytes());
  ASSERT_TRUE(until([&] {
    output_.sender.pump(*stream_, kLong);
    drain();
    return second.outgoing.sent();
  }));
  EXPECT_TRUE(first.outgoing.sent());
  EXPECT_FALSE(output_.has_bytes());
}

}  // namespace
}  // namespace tally::net
