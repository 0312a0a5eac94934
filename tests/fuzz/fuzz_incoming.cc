// Arbitrary bytes from a peer into a connection of a TcpTransport, in pieces whose lengths the
// input decides. Only complete and verified frames in order are delivered, and a loss is reported
// once.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>

#include "base/check.h"
#include "fuzz_entry.h"
#include "kernel/crc32c/crc32c.h"
#include "net/tcp_transport.h"
#include "wire/little_endian.h"

namespace tally::net {
namespace {

constexpr std::uint32_t kGeneration = 1;

class CheckingReceiver final : public Receiver {
 public:
  explicit CheckingReceiver(std::uint8_t choices)
      : choices_(choices), room_(wire::kMaxPayloadBytes) {}

  std::span<std::byte> place(Rank from, const wire::FrameHeader& header) override {
    TALLY_CHECK(from == 1 && !lost_ && header.payload_bytes > 0);
    if ((choices_ & 1) == 0) return {};
    return std::span(room_).first(header.payload_bytes);
  }
  Acceptance deliver(Rank from, const wire::FrameHeader& header,
                     std::span<const std::byte> payload) override {
    TALLY_CHECK(from == 1 && !lost_ && !gone_);
    TALLY_CHECK(header.generation == kGeneration);
    TALLY_CHECK(payload.size() == header.payload_bytes);
    TALLY_CHECK(kernel::crc32c(payload) == header.payload_checksum);
    if ((choices_ & 2) != 0 && !std::exchange(held_, true)) return Acceptance::kHold;
    held_ = false;
    TALLY_CHECK(delivered_ == 0 || header.number > last_number_);
    last_number_ = header.number;
    ++delivered_;
    gone_ = header.kind == wire::FrameKind::kGoodbye;
    return Acceptance::kTaken;
  }
  void lost(Rank peer, const Error& why) override {
    TALLY_CHECK(peer == 1 && why.peer == 1 && !lost_ && !gone_);
    TALLY_CHECK(why.code == ErrorCode::kPeerLost || why.code == ErrorCode::kCorrupt);
    lost_ = true;
  }
  bool over() const { return lost_ || gone_; }
  std::uint64_t delivered() const { return delivered_; }

 private:
  const std::uint8_t choices_;
  std::vector<std::byte> room_;
  bool held_ = false;
  bool lost_ = false;
  bool gone_ = false;
  std::uint32_t last_number_ = 0;
  std::uint64_t delivered_ = 0;
};

// One call to progress() does a bounded amount of work; so many calls process any input.
void settle(Transport& transport, Receiver& receiver) {
  for (int quiet = 0; quiet < 3; ++quiet) {
    if (transport.progress(receiver)) quiet = 0;
  }
}

void feed(Socket peer, Transport& transport, CheckingReceiver& receiver,
          std::span<const std::byte> bytes, std::size_t piece_bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), piece_bytes);
    const ssize_t sent = ::send(peer.descriptor(), bytes.data(), count, MSG_NOSIGNAL);
    if (sent <= 0) break;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
    settle(transport, receiver);
  }
  peer.reset();
  settle(transport, receiver);
}

// Makes frames out of arbitrary bytes: wherever the last one ended, magic, checksums and the number
// that is due are put right (lengths only shortened to what is there), so that inputs get past the
// checks that random bytes never pass.
void seal_frames(std::span<std::byte> bytes) {
  for (std::uint32_t number = 0; bytes.size() >= wire::kHeaderBytes; ++number) {
    const wire::EncodedHeader good = wire::encode({});
    std::copy_n(good.begin(), 6, bytes.begin());  // magic and version
    wire::store(bytes, 24, number);
    const std::span<std::byte> rest = bytes.subspan(wire::kHeaderBytes);
    const auto asked = wire::load<std::uint32_t>(bytes, 44);
    const auto payload_bytes = static_cast<std::uint32_t>(asked % (rest.size() + 1));
    wire::store(bytes, 44, payload_bytes);
    wire::store(bytes, 64, kernel::crc32c(rest.first(payload_bytes)));
    wire::store(bytes, 76, kernel::crc32c(bytes.first(76)));
    bytes = rest.subspan(payload_bytes);
  }
}

}  // namespace
}  // namespace tally::net

// The first byte chooses how the receiver behaves and whether the bytes are made into frames, the
// second how long the pieces are.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally::net;
  if (size < 2) return 0;
  std::array<int, 2> ends{};
  TALLY_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
  std::vector<std::unique_ptr<Stream>> streams(2);
  streams[1] = plain_stream(Socket(ends[0]));
  auto transport = TcpTransport::make({.rank = 0, .generation = kGeneration}, std::move(streams));
  TALLY_CHECK(transport.has_value());
  CheckingReceiver receiver(data[0]);
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size).subspan(2));
  std::vector<std::byte> bytes(input.begin(), input.end());
  if ((data[0] & 4) != 0) seal_frames(bytes);
  feed(Socket(ends[1]), **transport, receiver, bytes, 1 + std::size_t{data[1]} * data[1]);
  TALLY_CHECK(receiver.over());
  const Counters& counters = (*transport)->counters();
  TALLY_CHECK(counters.frames_received == receiver.delivered());
  TALLY_CHECK(counters.corrupt_frames <= 1);
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  using namespace tally;
  const auto append = [](std::vector<std::uint8_t>& to, std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) to.push_back(std::to_integer<std::uint8_t>(byte));
  };
  std::vector<std::vector<std::uint8_t>> seeds = {{}, {0, 0}};
  for (const std::uint8_t choices : {0, 1, 2, 3, 4, 5, 6, 7}) {
    std::vector<std::uint8_t> seed = {choices, 255};
    for (std::uint32_t number = 0; number < 5; ++number) {
      const std::vector<std::byte> payload(number * 300, std::byte{7});
      append(seed, wire::encode({.generation = number == 2 ? 9U : net::kGeneration,
                                 .number = number,
                                 .message_bytes = payload.size(),
                                 .payload_bytes = static_cast<std::uint32_t>(payload.size()),
                                 .payload_checksum = kernel::crc32c(payload)}));
      append(seed, payload);
    }
    seeds.push_back(seed);
    append(seed,
           wire::encode(
               {.kind = wire::FrameKind::kGoodbye, .generation = net::kGeneration, .number = 5}));
    seeds.push_back(seed);
  }
  return seeds;
}
