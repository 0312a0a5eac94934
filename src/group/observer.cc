#include "group/observer.h"

#include <fmt/format.h>
#include <poll.h>

#include "base/clock.h"
#include "group/local_access.h"
#include "net/tls_stream.h"
#include "wire/error_body.h"

namespace tally::group {
namespace {

constexpr std::size_t kMaxUnsentBytes = std::size_t{1} << 20;

}  // namespace

Observer::Observer(std::unique_ptr<net::Stream> stream)
    : connection_(std::make_unique<WatchConnection>(std::move(stream), kMaxUnsentBytes)) {}

Result<Observer> Observer::local(const std::string& name) {
  TALLY_TRY(Descriptor socket, connect_local(name));
  return Observer(net::plain_stream(std::move(socket)));
}

Result<Observer> Observer::remote(const net::Address& at, const std::optional<Secret>& secret,
                                  Deadline by) {
  if (!secret && !net::on_loopback(at))
    return Error{.code = ErrorCode::kInvalid,
                 .message = fmt::format("asking {} needs the job's secret", to_string(at))};
  TALLY_TRY(net::Socket socket, net::connect(at, by));
  if (!secret) return Observer(net::plain_stream(std::move(socket)));
  TALLY_TRY(const auto tls,
            net::TlsContext::make({.secret = *secret, .identity = "tally observer"}));
  TALLY_TRY(auto stream, tls->client(std::move(socket)));
  TALLY_TRY(net::complete_handshake(*stream, by));
  return Observer(std::move(stream));
}

Result<void> Observer::ask(WatchKind question, const Take& take, Deadline by) {
  connection_->send({question, {}});
  for (;;) {
    TALLY_TRY(const auto messages, connection_->advance());
    for (const WatchMessage& message : messages) {
      if (message.kind == WatchKind::kEnd) return {};
      if (message.kind == WatchKind::kRefusal) {
        Error error;
        TALLY_TRY(wire::decode_error(message.body, &error));
        return error;
      }
      TALLY_TRY(take(message));
    }
    pollfd entry{connection_->descriptor(), connection_->events(), 0};
    if (!connection_->impatient() && ::poll(&entry, 1, net::poll_timeout(by)) == 0 &&
        by.passed(SteadyClock().now()))
      return Error{.code = ErrorCode::kTimeout, .message = "the coordinator does not answer"};
  }
}

Result<JobStatus> Observer::status(Deadline by) {
  JobStatus status;
  const auto take = [&status](const WatchMessage& message) -> Result<void> {
    if (message.kind == WatchKind::kJob) {
      TALLY_TRY(status, body_of(message, &read_job_status));
    } else if (message.kind == WatchKind::kMember) {
      TALLY_TRY(MemberStatus member, body_of(message, &read_member_status));
      status.members.push_back(std::move(member));
    }
    return {};
  };
  TALLY_TRY(ask(WatchKind::kAskStatus, take, by));
  return status;
}

Result<std::vector<Trace>> Observer::traces(Deadline by) {
  std::vector<Trace> traces;
  const auto take = [&traces](const WatchMessage& message) -> Result<void> {
    if (message.kind != WatchKind::kTrace) return {};
    TALLY_TRY(Trace trace, body_of(message, &read_trace));
    traces.push_back(std::move(trace));
    return {};
  };
  TALLY_TRY(ask(WatchKind::kAskTrace, take, by));
  return traces;
}

}  // namespace tally::group
