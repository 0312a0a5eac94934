#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "base/errors.h"
#include "group/control.h"
#include "group/rendezvous.h"
#include "net/stream_factory.h"

namespace tally::group {
namespace {

constexpr int kMostAttempts = 20;
constexpr auto kPauseBetweenAttempts = std::chrono::milliseconds(10);

class Client {
 public:
  Client(RendezvousOptions options, Deadline by) : options_(std::move(options)), by_(by) {}

  using Complete = std::function<Result<void>(const net::Address&, Hello&)>;

  // Connects, introduces this rank and returns the answer. A host with many strangers at its door
  // may close a connection that has not introduced itself yet, to make place for newer ones; this
  // rank then tries again, as long as the host listens.
  Result<ControlMessage> be_welcomed(const Complete& complete) {
    auto first = net::connect_retrying(options_.at, by_);
    if (!first.has_value())
      return make_error(first.error().code, options_.host, "no rendezvous at {}: {}",
                        to_string(options_.at), first.error().message);
    auto welcome = try_to_join(*std::move(first), complete);
    for (int attempt = 1; attempt < kMostAttempts && may_have_lost_its_place(welcome); ++attempt) {
      std::this_thread::sleep_for(kPauseBetweenAttempts);
      auto socket = net::connect(options_.at, by_);
      if (!socket.has_value()) break;
      welcome = try_to_join(*std::move(socket), complete);
    }
    return welcome;
  }

  Result<void> introduce(const Complete& complete) {
    // Once: a second connection has the same local address.
    if (!completed_) TALLY_TRY(complete(local_, options_.hello));
    completed_ = true;
    const auto greeting = wire::encode(wire::Greeting{.from = options_.hello.rank,
                                                      .to = options_.host,
                                                      .generation = options_.hello.generation,
                                                      .token = options_.token});
    connection_->send_raw({greeting.begin(), greeting.end()});
    return send(*connection_, message_of(ControlKind::kHello, options_.hello), by_);
  }

  Result<void> report(const Result<void>& connected) {
    if (connected.has_value()) return send(*connection_, {ControlKind::kReady, {}}, by_);
    return send(*connection_, message_of(ControlKind::kTrouble, connected.error()), by_);
  }

  // The next message, which must be of this kind.
  Result<ControlMessage> hear(ControlKind expected) {
    auto message = receive(*connection_, by_);
    if (!message.has_value()) {
      // A host with a secret closes a plain connection and cannot tell why.
      const bool unheard =
          message.error().code == ErrorCode::kPeerLost && expected == ControlKind::kWelcome;
      return at_rendezvous(message.error(), unheard && !options_.secret
                                                ? "; if it has a secret, this rank needs the same"
                                                : "");
    }
    if (message->kind == ControlKind::kAbort) return error_in(*message);
    if (message->kind != expected)
      return make_error(ErrorCode::kCorrupt, options_.host, "an unexpected answer");
    return message;
  }

 private:
  static bool may_have_lost_its_place(const Result<ControlMessage>& answer) {
    return !answer.has_value() && (answer.error().code == ErrorCode::kPeerLost ||
                                   answer.error().code == ErrorCode::kExhausted);
  }

  Result<ControlMessage> try_to_join(net::Socket socket, const Complete& complete) {
    TALLY_TRY(reach(std::move(socket)));
    TALLY_TRY(introduce(complete));
    return hear(ControlKind::kWelcome);
  }

  Result<void> reach(net::Socket socket) {
    TALLY_TRY(local_, net::local_address(socket));
    TALLY_TRY(const auto streams,
              net::StreamFactory::make(options_.secret,
                                       fmt::format("tally rank {}", options_.hello.rank)));
    TALLY_TRY(auto stream, streams.client(std::move(socket)));
    connection_ = std::make_unique<net::MessageConnection>(std::move(stream),
                                                           net::MessageConnection::Options{});
    const auto shaken = connection_->flush(by_);
    if (!shaken.has_value()) return at_rendezvous(shaken.error());
    return {};
  }

  Error at_rendezvous(const Error& why, const char* hint = "") const {
    return make_error(why.code, options_.host, "the rendezvous at {}: {}{}", to_string(options_.at),
                      why.message, hint);
  }

  RendezvousOptions options_;
  const Deadline by_;
  net::Address local_;
  bool completed_ = false;
  std::unique_ptr<net::MessageConnection> connection_;
};

}  // namespace

Result<Welcome> join_rendezvous(
    RendezvousOptions options,
    const std::function<Result<void>(const net::Address& local_address, Hello& hello)>& introduce,
    const Connect& connect, Deadline by) {
  Client client(std::move(options), by);
  TALLY_TRY(const ControlMessage message, client.be_welcomed(introduce));
  TALLY_TRY(const Welcome welcome, body_of<Welcome>(message));
  const Result<void> connected = connect(welcome);
  (void)client.report(connected);  // the next hear() returns the error of a lost host
  // The host's outcome counts, since it names the first problem; if the host is lost, this rank's
  // own problem does.
  const auto verdict = client.hear(ControlKind::kGo);
  if (verdict.has_value()) return welcome;
  if (!connected.has_value() && verdict.error().code == ErrorCode::kPeerLost)
    return connected.error();
  return verdict.error();
}

}  // namespace tally::group
