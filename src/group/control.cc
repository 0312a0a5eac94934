#include "group/control.h"

#include "kernel/crc32c/crc32c.h"
#include "wire/error_body.h"

namespace tally::group {
namespace {

Error corrupt(const char* what) { return {.code = ErrorCode::kCorrupt, .message = what}; }

}  // namespace

Result<void> send_control(net::Stream& stream, const Control& control, Deadline by) {
  std::vector<std::byte> payload{static_cast<std::byte>(control.kind)};
  payload.insert(payload.end(), control.body.begin(), control.body.end());
  if (payload.size() > wire::kMaxPayloadBytes)
    return Error{.code = ErrorCode::kExhausted, .message = "too many ranks for one rendezvous"};
  const auto header = wire::encode({.kind = wire::FrameKind::kControl,
                                    .message_bytes = payload.size(),
                                    .payload_bytes = static_cast<std::uint32_t>(payload.size()),
                                    .payload_checksum = kernel::crc32c(payload)});
  TALLY_TRY(net::write_all(stream, header, by));
  return net::write_all(stream, payload, by);
}

Result<Control> receive_control(net::Stream& stream, Deadline by) {
  wire::EncodedHeader encoded;
  TALLY_TRY(net::read_all(stream, encoded, by));
  TALLY_TRY(const wire::FrameHeader header, wire::decode(encoded));
  if (header.kind != wire::FrameKind::kControl || header.payload_bytes == 0)
    return corrupt("something else than a control frame");
  std::vector<std::byte> payload(header.payload_bytes);
  TALLY_TRY(net::read_all(stream, payload, by));
  if (kernel::crc32c(payload) != header.payload_checksum)
    return corrupt("a control frame was altered");
  const auto kind = static_cast<std::uint8_t>(payload.front());
  if (kind < static_cast<std::uint8_t>(ControlKind::kHello) ||
      kind > static_cast<std::uint8_t>(ControlKind::kGo))
    return corrupt("an unknown control frame");
  return Control{static_cast<ControlKind>(kind), {payload.begin() + 1, payload.end()}};
}

Error error_in(const Control& control) {
  Error error;
  if (const auto read = wire::decode_error(control.body, &error); !read.has_value())
    return read.error();
  return error;
}

}  // namespace tally::group
