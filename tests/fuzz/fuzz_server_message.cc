// Arbitrary bytes from a peer over a link of the parameter servers, in pieces whose lengths the
// input decides, with shared memory attached to some of them. Only complete and verified messages
// are delivered, with payloads inside the memory that they may name.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/check.h"
#include "fuzz_entry.h"
#include "kernel/crc32c/crc32c.h"
#include "server/link/link_receiver.h"
#include "server/link/regions.h"

namespace tally::server {
namespace {

constexpr std::size_t kShownBytes = 8192;

class CheckingSink final : public LinkReceiver::Sink {
 public:
  CheckingSink(bool local, bool places) : local_(local), places_(places) {}

  std::span<std::byte> place(const MessageHeader& header) override {
    TALLY_CHECK(header.kind == MessageKind::kAnswer);
    if (!places_ || header.payload_bytes > room_.size()) return {};
    return std::span(room_).first(header.payload_bytes);
  }
  bool deliver(const Message& message) override {
    const MessageHeader& header = message.header;
    TALLY_CHECK(header.kind != MessageKind::kRegion);
    const bool written = header.reply_place == kWritten;
    TALLY_CHECK(message.payload.size() == header.payload_bytes || written);
    TALLY_CHECK(local_ || (message.reply.empty() && !message.stays && !written));
    TALLY_CHECK(message.reply.size() <= kShownBytes);
    TALLY_CHECK(!message.stays || message.payload.size() <= kShownBytes);
    if (!local_ && !message.payload.empty())
      TALLY_CHECK(kernel::crc32c(message.payload) == header.payload_checksum);
    // Every byte of the payload can be read.
    for (const std::byte byte : message.payload) sum_ += std::to_integer<unsigned>(byte);
    for (std::byte& byte : message.reply) byte = std::byte{1};
    return (++delivered_ & 7U) != 0;
  }

 private:
  const bool local_;
  const bool places_;
  std::array<std::byte, 512> room_{};
  unsigned delivered_ = 0;
  unsigned sum_ = 0;
};

void send(int socket, std::span<const std::uint8_t> bytes, int descriptor) {
  iovec part{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  TALLY_CHECK(::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

// First byte: which kind of link. Then pieces: a byte of length, doubled, whose lowest bit sends
// memory along.
void run(std::span<const std::uint8_t> input) {
  if (input.empty()) return;
  const bool local = (input[0] & 1) != 0;
  CheckingSink sink(local, (input[0] & 2) != 0);
  std::array<int, 2> ends{};
  TALLY_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) ==
              0);
  const Descriptor peer(ends[0]);
  const auto socket =
      local ? net::local_stream(Descriptor(ends[1])) : net::plain_stream(Descriptor(ends[1]));
  static const auto shown = Mapping::create(kShownBytes);
  LinkReceiver receiver;
  auto end = LinkReceiver::End::kDrained;
  for (auto left = input.subspan(1); !left.empty() && end != LinkReceiver::End::kFailed;) {
    const std::uint8_t length = left.front();
    left = left.subspan(1);
    const std::size_t count = std::min<std::size_t>(std::size_t{length} * 2, left.size());
    if (count == 0) continue;
    send(peer.descriptor(), left.first(count),
         local && (length & 1) != 0 ? (*shown)->descriptor() : -1);
    left = left.subspan(count);
    do {
      end = receiver.pump(*socket, sink, 4096).end;
    } while (end == LinkReceiver::End::kMore);
  }
}

void append(std::vector<std::uint8_t>& input, const MessageHeader& header,
            const std::vector<std::byte>& payload, bool memory) {
  const EncodedHeader encoded = encode(header);
  std::vector<std::uint8_t> bytes(encoded.size() + payload.size());
  std::memcpy(bytes.data(), encoded.data(), encoded.size());
  if (!payload.empty()) std::memcpy(bytes.data() + encoded.size(), payload.data(), payload.size());
  bytes.resize((bytes.size() + 3) / 4 * 4);
  const std::size_t half = bytes.size() / 2;
  // Lengths are halved, and odd where memory goes along.
  for (const bool first : {true, false}) {
    auto length = static_cast<std::uint8_t>(half / 2);
    if (memory && first) {
      length = static_cast<std::uint8_t>(bytes.size() / 2 + 1 - bytes.size() / 2 % 2);
      input.push_back(length);
      input.insert(input.end(), bytes.begin(), bytes.end());
      return;
    }
    input.push_back(length);
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(first ? 0 : half);
    input.insert(input.end(), begin, begin + static_cast<std::ptrdiff_t>(half));
  }
}

}  // namespace
}  // namespace tally::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tally::server::run({data, size});
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  using namespace tally::server;
  const std::vector<std::byte> payload(64, std::byte{5});
  std::vector<std::vector<std::uint8_t>> seeds;
  std::vector<std::uint8_t> plain = {2};
  append(plain,
         {.kind = MessageKind::kPush,
          .payload_bytes = 64,
          .payload_checksum = tally::kernel::crc32c(payload)},
         payload, false);
  append(plain,
         {.kind = MessageKind::kAnswer,
          .payload_bytes = 64,
          .payload_checksum = tally::kernel::crc32c(payload)},
         payload, false);
  seeds.push_back(plain);
  std::vector<std::uint8_t> local = {3};
  append(local, {.kind = MessageKind::kRegion, .sequence = kShownBytes}, {}, true);
  append(local, {.kind = MessageKind::kPush, .payload_bytes = 64, .payload_place = 1ULL << 48}, {},
         false);
  append(local,
         {.kind = MessageKind::kPull, .reply_place = (1ULL << 48) | 4096, .reply_bytes = 4096}, {},
         false);
  append(local, {.kind = MessageKind::kAnswer, .reply_place = kWritten, .reply_bytes = 64}, {},
         false);
  seeds.push_back(local);
  return seeds;
}
