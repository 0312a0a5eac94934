#include "process/guest.h"

#include <unistd.h>

#include <algorithm>

#include "group/control.h"
#include "kernel/crc32c/crc32c.h"
#include "process/crew.h"
#include "wire/greeting.h"

namespace tally::process {
namespace {

Error unexpected(const char* what) { return {.code = ErrorCode::kInvalid, .message = what}; }

}  // namespace

Guest::Guest(std::uint16_t rendezvous_port, Rank rank, int size)
    : port_(rendezvous_port), rank_(rank), size_(size) {}

Result<void> Guest::join() {
  TALLY_TRY(meet());
  TALLY_TRY(connect());
  TALLY_TRY(group::send(*rendezvous_, {group::ControlKind::kReady, {}}, soon()));
  TALLY_TRY(const group::ControlMessage go, group::receive(*rendezvous_, soon()));
  if (go.kind != group::ControlKind::kGo) return unexpected("no go from the rendezvous");
  return {};
}

Result<void> Guest::meet() {
  TALLY_TRY(net::Socket socket, net::connect_retrying({"127.0.0.1", port_}, soon()));
  rendezvous_ = std::make_unique<net::MessageConnection>(net::plain_stream(std::move(socket)),
                                                         net::MessageConnection::Options{});
  const auto greeting = wire::encode({.from = rank_, .generation = 1});
  rendezvous_->send_raw({greeting.begin(), greeting.end()});
  group::Hello hello;
  hello.rank = rank_;
  hello.size = size_;
  hello.transport = TransportKind::kTcp;
  hello.host = "a host of its own";
  hello.host_name = "guest";
  hello.pid = getpid();
  hello.listens = {"127.0.0.1", 1};
  hello.local_socket = "none";
  TALLY_TRY(
      group::send(*rendezvous_, group::message_of(group::ControlKind::kHello, hello), soon()));
  TALLY_TRY(const group::ControlMessage welcome, group::receive(*rendezvous_, soon()));
  if (welcome.kind != group::ControlKind::kWelcome) return unexpected("not welcome");
  TALLY_TRY(welcome_, group::body_of<group::Welcome>(welcome));
  return {};
}

Result<void> Guest::connect() {
  TALLY_TRY(net::Socket socket, net::connect(welcome_.members[0].listens, soon()));
  mesh_ = net::plain_stream(std::move(socket));
  const wire::Greeting greeting{
      .from = rank_, .to = 0, .generation = welcome_.generation, .token = welcome_.token};
  TALLY_TRY(net::write_all(*mesh_, wire::encode(greeting), soon()));
  wire::EncodedAnswer encoded;
  TALLY_TRY(net::read_all(*mesh_, encoded, soon()));
  TALLY_TRY(const wire::GreetingAnswer answer, wire::decode_answer(encoded));
  if (answer.status != wire::GreetingStatus::kAccepted)
    return unexpected("rank 0 does not want the connection");
  return {};
}

Result<void> Guest::send(const std::vector<std::byte>& bytes) {
  return net::write_all(*mesh_, bytes, soon());
}

Result<Guest::Frame> Guest::receive() {
  for (;;) {
    wire::EncodedHeader encoded;
    TALLY_TRY(net::read_all(*mesh_, encoded, soon()));
    TALLY_TRY(const wire::FrameHeader header, wire::decode(encoded));
    Frame frame{header, std::vector<std::byte>(header.payload_bytes)};
    TALLY_TRY(net::read_all(*mesh_, frame.payload, soon()));
    if (header.kind == wire::FrameKind::kData) return frame;
  }
}

std::vector<std::byte> frame_bytes(wire::FrameHeader header,
                                   const std::vector<std::byte>& payload) {
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  header.payload_checksum = kernel::crc32c(payload);
  const wire::EncodedHeader encoded = wire::encode(header);
  std::vector<std::byte> bytes(encoded.size() + payload.size());
  std::copy(encoded.begin(), encoded.end(), bytes.begin());
  std::copy(payload.begin(), payload.end(), bytes.begin() + encoded.size());
  return bytes;
}

}  // namespace tally::process
