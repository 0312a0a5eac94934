#include <fmt/format.h>

#include "group/control.h"
#include "group/rendezvous.h"
#include "net/tls_stream.h"
#include "wire/error_body.h"

namespace tally::group {
namespace {

using net::Stream;

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
    if (!options_.secret) {
      stream_ = net::plain_stream(*std::move(socket));
      return {};
    }
    TALLY_TRY(const auto tls, net::TlsContext::make(
                                  {.secret = *options_.secret,
                                   .identity = fmt::format("tally rank {}", options_.hello.rank)}));
    TALLY_TRY(stream_, tls->client(*std::move(socket)));
    const auto shaken = net::complete_handshake(*stream_, by_);
    if (!shaken.has_value()) return at_rendezvous(shaken.error());
    return {};
  }

  Result<void> introduce(const std::function<Result<void>(const net::Address&, Hello&)>& complete) {
    TALLY_TRY(complete(local_, options_.hello));
    const auto greeting = wire::encode(wire::Greeting{.from = options_.hello.rank,
                                                      .to = options_.host,
                                                      .generation = options_.hello.generation,
                                                      .token = options_.token});
    TALLY_TRY(net::write_all(*stream_, greeting, by_));
    wire::Writer writer;
    write(writer, options_.hello);
    return send_control(*stream_, {ControlKind::kHello, writer.take()}, by_);
  }

  Result<Welcome> hear_welcome() {
    TALLY_TRY(const Control control, hear(ControlKind::kWelcome));
    wire::Reader reader(control.body);
    TALLY_TRY(Welcome welcome, read_welcome(reader));
    TALLY_TRY(reader.end());
    return welcome;
  }

  Result<void> report(const Result<void>& connected) {
    if (connected.has_value()) return send_control(*stream_, {ControlKind::kReady, {}}, by_);
    return send_control(*stream_, {ControlKind::kTrouble, wire::encode_error(connected.error())},
                        by_);
  }

  Result<void> hear_go() {
    TALLY_TRY(hear(ControlKind::kGo));
    return {};
  }

 private:
  Result<Control> hear(ControlKind expected) {
    auto control = receive_control(*stream_, by_);
    if (!control.has_value()) {
      // A host with a secret ends a connection without one, and has no way to say so.
      const bool unheard =
          control.error().code == ErrorCode::kPeerLost && expected == ControlKind::kWelcome;
      return at_rendezvous(control.error(), unheard && !options_.secret
                                                ? "; if it has a secret, this rank needs the same"
                                                : "");
    }
    if (control->kind == ControlKind::kRefusal) return error_in(*control);
    if (control->kind != expected)
      return Error{
          .code = ErrorCode::kCorrupt, .peer = options_.host, .message = "an unexpected answer"};
    return control;
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
  std::unique_ptr<Stream> stream_;
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
