// Messages to and from a coordinator: bytes are split into messages without a read beyond them, and
// a body that decodes encodes to the same bytes again.
#include <span>

#include "base/check.h"
#include "fuzz_entry.h"
#include "group/watch_message.h"

namespace tally::group {
namespace {

template <typename Body>
void check_body(const ControlMessage& message) {
  const auto body = body_of<Body>(message);
  if (!body.has_value()) {
    TALLY_CHECK(body.error().code == ErrorCode::kCorrupt);
    return;
  }
  TALLY_CHECK(message_of(message.kind, *body).body == message.body);
}

void check_all(const ControlMessage& message) {
  check_body<Registration>(message);
  check_body<Report>(message);
  check_body<Trace>(message);
  check_body<Pulse>(message);
  check_body<LostRanks>(message);
  check_body<JobStatus>(message);
  check_body<MemberStatus>(message);
}

void add(std::vector<std::vector<std::uint8_t>>& seeds, const std::vector<std::byte>& bytes) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  seeds.emplace_back(begin, begin + bytes.size());
}

}  // namespace
}  // namespace tally::group

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally::group;
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  // As a stream of messages.
  tally::wire::FrameBuffer buffer(tally::wire::Framing::kControlFrame);
  buffer.add(input);
  for (auto next = buffer.next(); next.has_value() && next->has_value(); next = buffer.next())
    check_all(decode(**next));
  // As a body: checksums keep most inputs from getting so far.
  check_all({ControlKind::kReport, {input.begin(), input.end()}});
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  using namespace tally;
  using namespace tally::group;
  Report report{.rank = 1, .host = "a", .step = 3};
  report.current = ReportedOperation{"world", 0, {.sequence = 4}, {0, 1}, {1}};
  report.positions = {{"world", 0, 5}};
  report.failure = Error{.code = ErrorCode::kTimeout, .peer = 0, .message = "late"};
  Trace trace{.rank = 1, .clock_offset = {}, .communicators = {}};
  trace.communicators.push_back({.name = "world", .operations = {{.sequence = 1}}, .awaited = {0}});
  std::vector<std::vector<std::uint8_t>> seeds{{}};
  for (const ControlMessage& message :
       {message_of(ControlKind::kReport, report), message_of(ControlKind::kTrace, trace),
        message_of(ControlKind::kRegister,
                   Registration{.job = "j", .host = "h", .host_identity = "m"}),
        message_of(ControlKind::kPulse, Pulse{.echo = {}, .now = {}, .machine = "m"}),
        message_of(ControlKind::kLost, LostRanks{.generation = 1, .ranks = {1}, .why = "w"}),
        message_of(ControlKind::kMember, MemberStatus{.rank = 1, .report = report}),
        message_of(ControlKind::kJob,
                   JobStatus{.job = "j", .address = "a", .stall = "s", .members = {}})}) {
    add(seeds, wire::frame(wire::Framing::kControlFrame, encode(message)));
    add(seeds, message.body);
  }
  return seeds;
}
