#include "group/observer.h"

#include "base/errors.h"
#include "group/local_access.h"
#include "net/stream_factory.h"

namespace tally::group {

Observer::Observer(std::unique_ptr<net::Stream> stream)
    : connection_(std::make_unique<net::MessageConnection>(std::move(stream),
                                                           net::MessageConnection::Options{})) {}

Result<Observer> Observer::local(const std::string& name) {
  TALLY_TRY(Descriptor socket, connect_local(name));
  return Observer(net::plain_stream(std::move(socket)));
}

Result<Observer> Observer::remote(const net::Address& at, const std::optional<Secret>& secret,
                                  Deadline by) {
  if (!secret && !net::on_loopback(at))
    return invalid("asking {} needs the job's secret", to_string(at));
  TALLY_TRY(net::Socket socket, net::connect(at, by));
  TALLY_TRY(const auto streams, net::StreamFactory::make(secret, "tally observer"));
  TALLY_TRY(auto stream, streams.client(std::move(socket)));
  TALLY_TRY(net::complete_handshake(*stream, by));
  return Observer(std::move(stream));
}

Result<void> Observer::ask(ControlKind question, const Take& take, Deadline by) {
  // A coordinator that refuses may have closed the connection already: its reason is read below.
  const auto sent = send(*connection_, {question, {}}, by);
  for (;;) {
    const auto message = receive(*connection_, by);
    if (!message.has_value() && message.error().code == ErrorCode::kTimeout)
      return make_error(ErrorCode::kTimeout, "the coordinator does not answer");
    if (!message.has_value()) return sent.has_value() ? message.error() : sent.error();
    if (message->kind == ControlKind::kEnd) return {};
    if (message->kind == ControlKind::kRefusal) return error_in(*message);
    TALLY_TRY(take(*message));
  }
}

Result<JobStatus> Observer::status(Deadline by) {
  JobStatus status;
  const auto take = [&status](const ControlMessage& message) -> Result<void> {
    if (message.kind == ControlKind::kJob) {
      TALLY_TRY(status, body_of<JobStatus>(message));
    } else if (message.kind == ControlKind::kMember) {
      TALLY_TRY(MemberStatus member, body_of<MemberStatus>(message));
      status.members.push_back(std::move(member));
    }
    return {};
  };
  TALLY_TRY(ask(ControlKind::kAskStatus, take, by));
  return status;
}

Result<std::vector<Trace>> Observer::traces(Deadline by) {
  std::vector<Trace> traces;
  const auto take = [&traces](const ControlMessage& message) -> Result<void> {
    if (message.kind != ControlKind::kTrace) return {};
    TALLY_TRY(Trace trace, body_of<Trace>(message));
    traces.push_back(std::move(trace));
    return {};
  };
  TALLY_TRY(ask(ControlKind::kAskTrace, take, by));
  return traces;
}

}  // namespace tally::group
