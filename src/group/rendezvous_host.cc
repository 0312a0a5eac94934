#include <fmt/format.h>
#include <poll.h>

#include <list>

#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "group/control.h"
#include "group/host.h"
#include "group/refusals.h"
#include "group/rendezvous.h"
#include "group/rendezvous_state.h"
#include "net/acceptor.h"
#include "net/greeting_exchange.h"
#include "net/stream_factory.h"

namespace tally::group {
namespace {

// A connection has this long to present itself.
constexpr Duration kGreetingTime = std::chrono::seconds(5);
// Kept back from the deadline for telling all ranks the outcome.
constexpr Duration kOutcomeTime = std::chrono::milliseconds(500);

using net::MessageConnection;

// A connection that has not presented itself yet: first its greeting arrives, then its Hello.
struct Caller {
  std::string from;
  net::Place place;
  std::optional<net::GreetingExchange> greeting;  // empty once it is complete
  std::unique_ptr<MessageConnection> connection;  // from then on
  Rank claimed = kNoRank;                         // the greeting says so
  Deadline by = Deadline::never();

  const net::Stream& stream() const { return greeting ? greeting->stream() : connection->stream(); }
  std::string claimed_identity() const {
    if (claimed != kNoRank) return fmt::format("tally rank {}", claimed);
    return stream().claimed_identity();
  }
};

struct Peer {
  Hello hello;
  std::unique_ptr<MessageConnection> connection;
};

// The rendezvous, seen from its host:
//   gather():          accept connections until each rank has sent its Hello.
//   kWelcome to all:   the members and the job's token.
//   connect():         all ranks connect with each other, this one included.
//   kReady from all:   or the error of a rank, which becomes the outcome for all.
//   kGo to all.
class Host {
 public:
  Host(net::Listener& listener, const RendezvousOptions& options, Deadline by)
      : options_(options),
        by_(by),
        state_(options.hello.size, options.hello.generation),
        acceptor_(
            {.listener = &listener,
             .streams = &streams_,
             .places = net::Acceptor::kSpare + static_cast<std::size_t>(options.hello.size)}) {}

  Result<Welcome> run(const Connect& connect) {
    const Result<Welcome> outcome = form(connect);
    if (!outcome.has_value()) {
      for (Peer& peer : peers_)
        (void)send(*peer.connection, message_of(ControlKind::kAbort, outcome.error()),
                   Deadline::after(kOutcomeTime));
    }
    return outcome;
  }

 private:
  Result<Welcome> form(const Connect& connect) {
    TALLY_TRY(state_.arrive(options_.hello));
    if (options_.hello.size > 1) TALLY_TRY(net::check_loopback(options_.hello.listens));
    TALLY_TRY(gather());
    TALLY_TRY(const Welcome welcome, make_welcome());
    const ControlMessage message = message_of(ControlKind::kWelcome, welcome);
    if (message.body.size() >= wire::kMaxPayloadBytes)
      return make_error(ErrorCode::kExhausted, "too many ranks for one rendezvous");
    TALLY_TRY(tell_all(message));
    TALLY_TRY(connect(welcome));
    TALLY_TRY(hear_all_ready());
    TALLY_TRY(tell_all({ControlKind::kGo, {}}));
    return welcome;
  }

  Result<void> gather() {
    TALLY_TRY(streams_, net::StreamFactory::make(
                            options_.secret, fmt::format("tally rank {}", options_.hello.rank)));
    const Deadline by = Deadline::at(by_.when() - kOutcomeTime);
    while (!state_.complete()) {
      if (by.passed(clock_.now())) return state_.error_at_deadline();
      accept_waiting();
      for (auto caller = callers_.begin(); caller != callers_.end();) {
        TALLY_TRY(const bool over, serve(*caller));
        caller = over ? callers_.erase(caller) : std::next(caller);
      }
      if (!state_.complete()) wait(by);
    }
    callers_.clear();
    return {};
  }

  void accept_waiting() {
    auto accepted = acceptor_.accept(clock_.now());
    if (!accepted.has_value()) return;  // tries again after a pause
    for (const auto& refusal : accepted->refused) report(refusal.from, "", refusal.why);
    for (net::Arrival& arrival : accepted->arrivals) {
      Caller& caller = callers_.emplace_back();
      caller.from = std::move(arrival.from);
      caller.place = std::move(arrival.place);
      caller.by = Deadline::after(kGreetingTime);
      caller.greeting.emplace(
          std::move(arrival.stream),
          net::GreetingExchange::Host{
              .greeting_bytes = wire::kGreetingBytes,
              .judge = [this, &caller](std::span<const std::byte> greeting, auto& /*answer*/) {
                return judge(greeting, caller);
              }});
    }
  }

  void wait(Deadline by) {
    std::vector<pollfd> entries;
    const TimePoint now = clock_.now();
    acceptor_.add_to(entries, now);
    if (acceptor_.paused_until() > now) by = earlier(by, Deadline::at(acceptor_.paused_until()));
    for (const Caller& caller : callers_) {
      by = earlier(by, caller.by);
      if (caller.greeting) {
        entries.push_back(caller.greeting->poll_entry());
      } else {
        caller.connection->add_to(entries);
      }
    }
    ::poll(entries.data(), entries.size(), net::poll_timeout(by));
  }

  Result<void> judge(std::span<const std::byte> encoded, Caller& caller) const {
    TALLY_TRY(const wire::Greeting greeting,
              wire::decode_greeting(encoded.first<wire::kGreetingBytes>()));
    caller.claimed = greeting.from;
    if (greeting.version != wire::kProtocolVersion) {
      return make_error(ErrorCode::kRefused, greeting.from,
                        "rank {} speaks protocol version {}, rank {} speaks {}", greeting.from,
                        greeting.version, options_.hello.rank, wire::kProtocolVersion);
    }
    if (greeting.token != options_.token)
      return make_error(ErrorCode::kStale, greeting.from, "rank {} belongs to another job",
                        greeting.from);
    if (greeting.generation != options_.hello.generation) {
      return make_error(ErrorCode::kStale, greeting.from, "rank {} wants generation {}, this is {}",
                        greeting.from, greeting.generation, options_.hello.generation);
    }
    return {};
  }

  // Whether the caller has become a peer or was refused. An error ends the rendezvous for all.
  Result<bool> serve(Caller& caller) {
    auto hello = hear(caller);
    caller.place.update(caller.stream());
    if (hello.has_value() && !*hello) {
      const bool revoked = caller.place.revoked();
      if (!revoked && !caller.by.passed(clock_.now())) return false;
      hello = revoked ? make_error(ErrorCode::kExhausted, "too many connections without a greeting")
                      : make_error(ErrorCode::kTimeout, "no greeting in time");
    }
    if (caller.greeting) take_connection(caller);
    if (!hello.has_value()) {
      TALLY_TRY(refuse(caller, hello.error()));
      return true;
    }
    const auto arrived = state_.arrive(**hello);
    peers_.push_back({**std::move(hello), std::move(caller.connection)});
    TALLY_TRY(arrived);
    return true;
  }

  static void take_connection(Caller& caller) {
    caller.connection =
        std::make_unique<MessageConnection>(caller.greeting->take(), MessageConnection::Options{});
    caller.greeting.reset();
  }

  // Reads without blocking.
  static Result<std::optional<Hello>> hear(Caller& caller) {
    if (caller.greeting) {
      TALLY_TRY(const bool greeted, caller.greeting->advance());
      if (!greeted) return std::optional<Hello>();
      take_connection(caller);
    }
    TALLY_TRY(const auto messages, advance(*caller.connection));
    if (messages.empty()) return std::optional<Hello>();
    if (messages.front().kind != ControlKind::kHello) return corrupt("no hello after the greeting");
    TALLY_TRY(Hello hello, body_of<Hello>(messages.front()));
    return std::optional(std::move(hello));
  }

  // A rank of this job with another protocol version ends the rendezvous for all; any other caller
  // is only refused.
  Result<void> refuse(Caller& caller, const Error& why) {
    report(caller.from, caller.claimed_identity(), why);
    send(*caller.connection, message_of(ControlKind::kAbort, why));
    caller.connection->flush();
    const bool proven = caller.connection->stream().authenticated() || !options_.secret;
    if (proven && why.code == ErrorCode::kRefused && why.peer != kNoRank) return why;
    return {};
  }

  void report(const std::string& from, const std::string& identity, const Error& why) {
    const std::string peer = identity.empty() ? from : fmt::format("{} ({})", from, identity);
    if (const auto sentence = refusals_.add(peer, why.message, clock_.now()))
      log_warning("rendezvous: " + *sentence);
    state_.turn_away(identity, why);
  }

  Result<Welcome> make_welcome() {
    Welcome welcome{.generation = options_.hello.generation,
                    .token = options_.token,
                    .members = state_.members()};
    if (options_.token == wire::JobToken{}) TALLY_TRY(fill_randomly(welcome.token));
    return welcome;
  }

  Result<void> tell_all(const ControlMessage& message) {
    for (Peer& peer : peers_) {
      if (auto sent = send(*peer.connection, message, by_); !sent.has_value())
        return lost(peer, sent.error());
    }
    return {};
  }

  Result<void> hear_all_ready() {
    for (Peer& peer : peers_) {
      auto answer = receive(*peer.connection, by_);
      if (!answer.has_value()) return lost(peer, answer.error());
      if (answer->kind == ControlKind::kTrouble) return error_in(*answer);
      if (answer->kind != ControlKind::kReady) return lost(peer, corrupt("an unexpected answer"));
    }
    return {};
  }

  static Error lost(const Peer& peer, const Error& why) {
    return make_error(why.code, peer.hello.rank, "rank {} (pid {} on {}) while joining: {}",
                      peer.hello.rank, peer.hello.pid, peer.hello.host_name, why.message);
  }

  const SteadyClock clock_;
  const RendezvousOptions& options_;
  const Deadline by_;
  RendezvousState state_;
  Refusals refusals_;
  net::StreamFactory streams_;
  net::Acceptor acceptor_;
  std::list<Caller> callers_;
  std::vector<Peer> peers_;
};

}  // namespace

Result<Welcome> host_rendezvous(net::Listener& listener, const RendezvousOptions& options,
                                const Connect& connect, Deadline by) {
  return Host(listener, options, by).run(connect);
}

}  // namespace tally::group
