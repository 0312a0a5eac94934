#include "group/control.h"

#include <algorithm>

#include "wire/error_body.h"

namespace tally::group {

ControlMessage message_of(ControlKind kind, const Error& error) {
  return {kind, wire::encode_error(error)};
}

Error error_in(const ControlMessage& message) {
  Error error;
  if (const auto read = wire::decode_error(message.body, &error); !read.has_value())
    return read.error();
  return error;
}

std::vector<std::byte> encode(const ControlMessage& message) {
  std::vector<std::byte> payload(1 + message.body.size());
  payload[0] = static_cast<std::byte>(message.kind);
  std::copy(message.body.begin(), message.body.end(), payload.begin() + 1);
  return payload;
}

ControlMessage decode(std::span<const std::byte> payload) {
  return {static_cast<ControlKind>(payload.front()), {payload.begin() + 1, payload.end()}};
}

void send(net::MessageConnection& to, const ControlMessage& message) { to.send(encode(message)); }

Result<void> send(net::MessageConnection& to, const ControlMessage& message, Deadline by) {
  to.send(encode(message));
  return to.flush(by);
}

Result<ControlMessage> receive(net::MessageConnection& from, Deadline by) {
  TALLY_TRY(const auto payload, from.receive(by));
  return decode(payload);
}

Result<std::vector<ControlMessage>> advance(net::MessageConnection& connection) {
  TALLY_TRY(const auto payloads, connection.advance());
  std::vector<ControlMessage> messages;
  for (const auto& payload : payloads) messages.push_back(decode(payload));
  return messages;
}

}  // namespace tally::group
