#pragma once
#include <cstdint>
#include <vector>

#include "net/message_connection.h"
#include "tally/deadline.h"
#include "wire/fields.h"

namespace tally::group {

// The messages of the rendezvous and of the coordinator. Each is one kControl frame; the first byte
// of its payload is the kind.
enum class ControlKind : std::uint8_t {
  // Rendezvous.
  kHello = 1,    // rank: Hello
  kWelcome = 2,  // host: Welcome
  kAbort = 3,    // host: the Error that ends the rendezvous for all
  kReady = 4,    // rank: connected with all others; empty
  kTrouble = 5,  // rank: the Error that kept it from connecting
  kGo = 6,       // host: all are ready; empty

  // Coordinator, the ranks that it watches, and observers.
  kRegister = 32,   // rank: Registration
  kReport = 33,     // rank: Report
  kGoodbye = 34,    // rank: its last Report; nothing follows
  kStack = 35,      // rank: string, answers kWantStack
  kTrace = 36,      // rank: Trace, answers kWantTrace; coordinator to observer: the same
  kAskStatus = 37,  // observer: empty
  kAskTrace = 38,   // observer: empty
  kPulse = 39,      // coordinator to rank: Pulse, answers kReport
  kLost = 40,       // coordinator to rank: LostRanks
  kWantStack = 41,  // coordinator to rank: empty
  kWantTrace = 42,  // coordinator to rank: empty
  kRefusal = 43,    // coordinator: an Error; the connection ends
  kJob = 44,        // coordinator to observer: JobStatus without members
  kMember = 45,     // coordinator to observer: MemberStatus
  kEnd = 46,        // coordinator to observer: the answer is complete; empty
};

// The kind of a received message may be none of the above: its receiver refuses it.
struct ControlMessage {
  ControlKind kind = ControlKind::kEnd;
  std::vector<std::byte> body;
};

// `body` has fields(), as wire/fields.h describes.
template <typename Body>
ControlMessage message_of(ControlKind kind, const Body& body) {
  wire::Writer writer;
  wire::write_fields(writer, body);
  return {kind, writer.take()};
}
ControlMessage message_of(ControlKind kind, const Error& error);

// The whole body as one value; kCorrupt if something follows it.
template <typename Body>
Result<Body> body_of(const ControlMessage& message) {
  wire::Reader reader(message.body);
  TALLY_TRY(Body body, wire::read_fields<Body>(reader));
  TALLY_TRY(reader.end());
  return body;
}
// The Error that the message carries, or kCorrupt if it carries none.
Error error_in(const ControlMessage& message);

// The payload of a frame, and back; a payload has at least one byte.
std::vector<std::byte> encode(const ControlMessage& message);
ControlMessage decode(std::span<const std::byte> payload);

// MessageConnection's calls for these messages.
void send(net::MessageConnection& to, const ControlMessage& message);
Result<void> send(net::MessageConnection& to, const ControlMessage& message, Deadline by);
Result<ControlMessage> receive(net::MessageConnection& from, Deadline by);
Result<std::vector<ControlMessage>> advance(net::MessageConnection& connection);

}  // namespace tally::group
