// Rank 0 is real and calls an all-reduce; the test plays rank 1 over a socket and sends wrong
// frames, which never become part of the sum.
#include <array>
#include <cstring>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "process/crew.h"
#include "process/guest.h"
#include "tally/job.h"

namespace tally::process {
namespace {

using Bytes = std::vector<std::byte>;
// Rank 1's values of the two elements; each rank sums one element.
constexpr float kFirst = 10;
constexpr float kSecond = 20;

Bytes bytes_of(float value) {
  Bytes bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

float float_of(const Bytes& bytes) {
  float value = 0;
  if (bytes.size() == sizeof(value)) std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

// The outcome of rank 0's sum.
struct Sum {
  Result<void> outcome;
  std::array<float, 2> data;
};

// Rank 1's part of the sum: it answers each message of rank 0 with the message of the same step of
// the operation. The caller chooses the frame's number on the connection.
class Partner {
 public:
  explicit Partner(Guest& guest) : guest_(guest) {}

  // The header of the message with rank 1's value of rank 0's element.
  Result<wire::FrameHeader> first() {
    TALLY_TRY(Guest::Frame asked, guest_.receive());
    second_total_ = float_of(asked.payload) + kSecond;
    asked.header.number = 0;
    return asked.header;
  }
  // The message with the sum of rank 1's element.
  Result<Bytes> second(std::uint32_t number) {
    TALLY_TRY(Guest::Frame asked, guest_.receive());
    asked.header.number = number;
    return frame_bytes(asked.header, bytes_of(second_total_));
  }

 private:
  Guest& guest_;
  float second_total_ = 0;
};

class Corruption : public testing::Test {
 protected:
  // `lie` plays rank 1 after both have joined; rank 0 adds {1, 2}.
  Sum sum_with(const std::function<Result<void>(Guest&)>& lie) {
    const std::uint16_t port = unused_port();
    Sum sum{.outcome = Error{.message = "rank 0 did not join"}, .data = {1, 2}};
    std::thread rank([&sum, port] {
      JobOptions options{
          .rank = 0, .size = 2, .master_port = port, .transport = TransportKind::kTcp};
      options.join_timeout = kPatience;
      options.operation_timeout = kPatience;
      options.dump_on_sigquit = false;
      auto job = Job::join(options);
      if (job.has_value()) sum.outcome = (*job)->world().allreduce(std::span<float>(sum.data));
      if (!job.has_value()) sum.outcome = job.error();
    });
    Guest guest(port);
    auto done = guest.join();
    if (done.has_value()) done = lie(guest);
    EXPECT_TRUE(done.has_value()) << to_string(done.error());
    if (!done.has_value()) guest.leave();
    rank.join();
    return sum;
  }

  static void expect_error(const Sum& sum, ErrorCode code, const std::string& in_message) {
    ASSERT_FALSE(sum.outcome.has_value());
    EXPECT_EQ(sum.outcome.error().code, code) << sum.outcome.error().message;
    EXPECT_EQ(sum.outcome.error().peer, 1) << sum.outcome.error().message;
    EXPECT_NE(sum.outcome.error().message.find(in_message), std::string::npos)
        << sum.outcome.error().message;
  }
};

// Shows that the errors below come from the wrong frames.
TEST_F(Corruption, HonestGuestCompletesTheSum) {
  const Sum sum = sum_with([](Guest& guest) -> Result<void> {
    Partner partner(guest);
    TALLY_TRY(const wire::FrameHeader header, partner.first());
    TALLY_TRY(guest.send(frame_bytes(header, bytes_of(kFirst))));
    TALLY_TRY(const Bytes second, partner.second(1));
    return guest.send(second);
  });
  ASSERT_TRUE(sum.outcome.has_value()) << to_string(sum.outcome.error());
  EXPECT_EQ(sum.data, (std::array<float, 2>{1 + kFirst, 2 + kSecond}));
}

TEST_F(Corruption, AlteredByteIsCorrupt) {
  const Sum sum = sum_with([](Guest& guest) -> Result<void> {
    TALLY_TRY(const wire::FrameHeader header, Partner(guest).first());
    Bytes bytes = frame_bytes(header, bytes_of(kFirst));
    bytes.back() ^= std::byte{1};
    return guest.send(bytes);
  });
  expect_error(sum, ErrorCode::kCorrupt, "checksum");
}

TEST_F(Corruption, OverLongLengthIsCorrupt) {
  const Sum sum = sum_with([](Guest& guest) -> Result<void> {
    TALLY_TRY(wire::FrameHeader header, Partner(guest).first());
    header.payload_bytes = wire::kMaxPayloadBytes + 1;
    header.message_bytes = header.payload_bytes;
    const wire::EncodedHeader encoded = wire::encode(header);
    return guest.send({encoded.begin(), encoded.end()});
  });
  expect_error(sum, ErrorCode::kCorrupt, "limit");
}

TEST_F(Corruption, GarbageIsCorrupt) {
  const Sum sum = sum_with([](Guest& guest) { return guest.send(Bytes(500, std::byte{0x5A})); });
  expect_error(sum, ErrorCode::kCorrupt, "magic");
}

TEST_F(Corruption, TornFrameIsALostPeer) {
  const Sum sum = sum_with([](Guest& guest) -> Result<void> {
    TALLY_TRY(const wire::FrameHeader header, Partner(guest).first());
    Bytes bytes = frame_bytes(header, bytes_of(kFirst));
    bytes.pop_back();
    TALLY_TRY(guest.send(bytes));
    guest.leave();
    return {};
  });
  expect_error(sum, ErrorCode::kPeerLost, "middle of a frame");
}

TEST_F(Corruption, ReplayedFrameIsCorrupt) {
  const Sum sum = sum_with([](Guest& guest) -> Result<void> {
    TALLY_TRY(const wire::FrameHeader header, Partner(guest).first());
    const Bytes once = frame_bytes(header, bytes_of(kFirst));
    TALLY_TRY(guest.send(once));
    return guest.send(once);
  });
  expect_error(sum, ErrorCode::kCorrupt, "frame number 0 where 1 was due");
}

TEST_F(Corruption, FrameOfAnOldGenerationIsDropped) {
  const Sum sum = sum_with([](Guest& guest) -> Result<void> {
    Partner partner(guest);
    TALLY_TRY(wire::FrameHeader header, partner.first());
    wire::FrameHeader old = header;
    old.generation = header.generation - 1;
    TALLY_TRY(guest.send(frame_bytes(old, bytes_of(1000))));
    header.number = 1;
    TALLY_TRY(guest.send(frame_bytes(header, bytes_of(kFirst))));
    TALLY_TRY(const Bytes second, partner.second(2));
    return guest.send(second);
  });
  ASSERT_TRUE(sum.outcome.has_value()) << to_string(sum.outcome.error());
  EXPECT_EQ(sum.data, (std::array<float, 2>{1 + kFirst, 2 + kSecond}));
}

TEST_F(Corruption, MessageOfAnotherLengthIsAMismatch) {
  const Sum sum = sum_with([](Guest& guest) -> Result<void> {
    TALLY_TRY(wire::FrameHeader header, Partner(guest).first());
    header.message_bytes = 8;
    return guest.send(frame_bytes(header, Bytes(8)));
  });
  expect_error(sum, ErrorCode::kMismatch, "rank 1 sent 8 bytes where rank 0 expects 4");
}

}  // namespace
}  // namespace tally::process
