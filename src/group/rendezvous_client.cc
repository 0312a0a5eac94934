#include <fmt/format.h>

#include "group/control.h"
#include "group/rendezvous.h"
#include "net/stream_factory.h"

namespace tally::group {
namespace {

class Guest {
 public:
  Guest(RendezvousOptions options, Deadline by) : options_(std::move(options)), by_(by) {}

  Result<void> reach() {
    auto socket = net::connect_retrying(options_.at, by_);
    if (!socket.has_value()) {
      return Error{.code = socket.error().code,
                   .peer = options_.host,
                   .message = fmt::format("no rendezvous at {}: {}", to_string(options_.at),
                                          socket.error().message)};
    }
    TALLY_TRY(local_, net::local_address(*socket));
    TALLY_TRY(const auto streams,
              net::StreamFactory::make(options_.secret,
                                       fmt::format("tally rank {}", options_.hello.rank)));
    TALLY_TRY(auto stream, streams.client(*std::move(socket)));
    connection_ = std::make_unique<net::MessageConnection>(std::move(stream),
                                                           net::MessageConnection::Options{});
    const auto shaken = connection_->flush(by_);
    if (!shaken.has_value()) return at_rendezvous(shaken.error());
    return {};
  }

  Result<void> introduce(const std::function<Result<void>(const net::Address&, Hello&)>& complete) {
    TALLY_TRY(complete(local_, options_.hello));
    const auto greeting = wire::encode(wire::Greeting{.from = options_.hello.rank,
                                                      .to = options_.host,
                                                      .generation = options_.hello.generation,
                                                      .token = options_.token});
    connection_->send_raw({greeting.begin(), greeting.end()});
    return send(*connection_, message_of(ControlKind::kHello, options_.hello), by_);
  }

  Result<Welcome> hear_welcome() {
    TALLY_TRY(const ControlMessage message, hear(ControlKind::kWelcome));
    return body_of(message, &read_welcome);
  }

  Result<void> report(const Result<void>& connected) {
    if (connected.has_value()) return send(*connection_, {ControlKind::kReady, {}}, by_);
    return send(*connection_, message_of(ControlKind::kTrouble, connected.error()), by_);
  }

  Result<void> hear_go() {
    TALLY_TRY(hear(ControlKind::kGo));
    return {};
  }

 private:
  Result<ControlMessage> hear(ControlKind expected) {
    auto message = receive(*connection_, by_);
    if (!message.has_value()) {
      // A host with a secret ends a connection without one, and has no way to say so.
      const bool unheard =
          message.error().code == ErrorCode::kPeerLost && expected == ControlKind::kWelcome;
      return at_rendezvous(message.error(), unheard && !options_.secret
                                                ? "; if it has a secret, this rank needs the same"
                                                : "");
    }
    if (message->kind == ControlKind::kAbort) return error_in(*message);
    if (message->kind != expected)
      return Error{
          .code = ErrorCode::kCorrupt, .peer = options_.host, .message = "an unexpected answer"};
    return message;
  }

  Error at_rendezvous(const Error& why, const char* hint = "") const {
    return {.code = why.code,
            .peer = options_.host,
            .message = fmt::format("the rendezvous at {}: {}{}", to_string(options_.at),
                                   why.message, hint)};
  }

  RendezvousOptions options_;
  const Deadline by_;
  net::Address local_;
  std::unique_ptr<net::MessageConnection> connection_;
};

}  // namespace

Result<Welcome> attend_rendezvous(
    RendezvousOptions options,
    const std::function<Result<void>(const net::Address& local_address, Hello& hello)>& introduce,
    const Connect& connect, Deadline by) {
  Guest guest(std::move(options), by);
  TALLY_TRY(guest.reach());
  TALLY_TRY(guest.introduce(introduce));
  TALLY_TRY(const Welcome welcome, guest.hear_welcome());
  const Result<void> connected = connect(welcome);
  (void)guest.report(connected);  // a host that is gone shows in what follows
  // The host's verdict counts, for it names what went wrong first; if it cannot be had, the own
  // trouble.
  const Result<void> verdict = guest.hear_go();
  if (verdict.has_value()) return welcome;
  if (!connected.has_value() && verdict.error().code == ErrorCode::kPeerLost)
    return connected.error();
  return verdict.error();
}

}  // namespace tally::group
