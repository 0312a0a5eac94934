#include "net/mesh.h"

#include <poll.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/errors.h"
#include "net/acceptor.h"
#include "net/greeting_exchange.h"
#include "net/stream_factory.h"

namespace tally::net {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(5);
constexpr Duration kLongestPause = std::chrono::milliseconds(250);

// This rank's attempts to connect to a lower one.
struct OutgoingCall {
  Rank peer = 0;
  std::vector<Endpoint> endpoints;  // each is tried in turn
  std::size_t attempt = 0;
  Duration pause = kFirstPause;
  TimePoint next_try{};
  std::unique_ptr<GreetingExchange> exchange;  // null between attempts
  std::string last_problem = "no answer";

  const Endpoint& endpoint() const { return endpoints[attempt % endpoints.size()]; }
};

// A connection to this rank that has not presented itself yet.
struct IncomingCall {
  std::unique_ptr<GreetingExchange> exchange;
  Place place;
  Deadline by = Deadline::never();
  Rank caller = kNoRank;  // once its greeting was accepted
};

class Mesh final {
 public:
  Mesh(Listener& listener, const MeshOptions& options, Deadline by)
      : options_(options),
        by_(by),
        size_(options.addresses.size()),
        acceptor_({.listener = &listener,
                   .streams = &factory_,
                   .places = Acceptor::kSpare + options.addresses.size()}) {
    streams_.resize(size_);
    welcomed_.resize(size_, false);
  }

  Result<std::vector<std::unique_ptr<Stream>>> run() {
    TALLY_TRY(prepare());
    while (missing() != kNoRank) {
      if (by_.passed(steady_now())) return timed_out();
      TALLY_TRY(start_calls());
      const std::vector<pollfd> polled = poll_all();
      TALLY_TRY(serve_calls(polled));
      serve_incoming(polled);
      TALLY_TRY(accept_calls());
    }
    return std::move(streams_);
  }

 private:
  Result<void> prepare() {
    TALLY_CHECK(options_.rank >= 0 && static_cast<std::size_t>(options_.rank) < size_);
    TALLY_CHECK(options_.wanted.empty() || options_.wanted.size() == size_);
    TALLY_TRY(factory_,
              StreamFactory::make(options_.secret, fmt::format("tally rank {}", options_.rank)));
    for (Rank peer = 0; peer < options_.rank; ++peer) {
      if (!wanted(peer)) continue;
      OutgoingCall& call = calls_.emplace_back();
      call.peer = peer;
      TALLY_TRY(call.endpoints, resolve(options_.addresses[static_cast<std::size_t>(peer)]));
    }
    return {};
  }

  bool wanted(Rank peer) const {
    if (peer == options_.rank) return false;
    return options_.wanted.empty() || options_.wanted[static_cast<std::size_t>(peer)];
  }

  // The lowest rank without a stream, kNoRank if there is none.
  Rank missing() const {
    for (Rank peer = 0; static_cast<std::size_t>(peer) < size_; ++peer) {
      if (wanted(peer) && streams_[static_cast<std::size_t>(peer)] == nullptr) return peer;
    }
    return kNoRank;
  }

  bool expects_calls() const {
    for (Rank peer = options_.rank + 1; static_cast<std::size_t>(peer) < size_; ++peer) {
      if (wanted(peer) && streams_[static_cast<std::size_t>(peer)] == nullptr) return true;
    }
    return false;
  }

  Error timed_out() const {
    const Rank peer = missing();
    const std::string where = to_string(options_.addresses[static_cast<std::size_t>(peer)]);
    std::string message = fmt::format("rank {} at {} did not connect", peer, where);
    for (const OutgoingCall& call : calls_) {
      if (call.peer == peer) {
        message = fmt::format("no connection to rank {} at {}: {}", peer, where, call.last_problem);
      }
    }
    if (refused_count_ > 0) {
      message += fmt::format(" ({} connections refused, the last because: {})", refused_count_,
                             last_refusal_);
    }
    return Error{.code = ErrorCode::kTimeout, .peer = peer, .message = std::move(message)};
  }

  Result<void> start_calls() {
    for (OutgoingCall& call : calls_) {
      if (call.exchange != nullptr || done(call) || steady_now() < call.next_try) continue;
      if (const auto started = start(call); !started) TALLY_TRY(retry(call, started.error()));
    }
    return {};
  }

  Result<void> start(OutgoingCall& call) {
    TALLY_TRY(Socket socket, start_connect(call.endpoint()));
    TALLY_TRY(auto stream, factory_.client(std::move(socket)));
    const wire::Greeting greeting{.from = options_.rank,
                                  .to = call.peer,
                                  .generation = options_.generation,
                                  .token = options_.token};
    const wire::EncodedGreeting encoded = wire::encode(greeting);
    call.exchange = std::make_unique<GreetingExchange>(
        std::move(stream),
        GreetingExchange::Caller{.greeting = {encoded.begin(), encoded.end()},
                                 .answer_bytes = wire::kAnswerBytes,
                                 .check = [greeting](std::span<const std::byte> answer) {
                                   return check_answer(greeting, answer);
                                 }});
    return {};
  }

  static Result<void> check_answer(const wire::Greeting& greeting,
                                   std::span<const std::byte> encoded) {
    TALLY_TRY(const wire::GreetingAnswer answer,
              wire::decode_answer(encoded.first<wire::kAnswerBytes>()));
    const auto refused = [&greeting](std::string why) {
      return Error{.code = ErrorCode::kRefused, .peer = greeting.to, .message = std::move(why)};
    };
    if (answer.status != wire::GreetingStatus::kAccepted) {
      return refused(fmt::format("rank {} refuses this connection: {}", greeting.to,
                                 to_string(answer.status)));
    }
    if (answer.version != greeting.version || answer.rank != greeting.to ||
        answer.generation != greeting.generation) {
      return refused(fmt::format(
          "rank {} of generation {} expected, rank {} of generation {} answers (version {})",
          greeting.to, greeting.generation, answer.rank, answer.generation, answer.version));
    }
    return {};
  }

  bool done(const OutgoingCall& call) const {
    return streams_[static_cast<std::size_t>(call.peer)] != nullptr;
  }

  // calls_, then incoming_, in order, then the listener; poll() skips a descriptor of -1.
  std::vector<pollfd> poll_all() {
    std::vector<pollfd> polled;
    Deadline next = by_;
    for (const OutgoingCall& call : calls_) {
      pollfd entry{.fd = -1, .events = POLLIN};
      if (call.exchange != nullptr) {
        entry = call.exchange->poll_entry();
      } else if (!done(call)) {
        next = earlier(next, Deadline::at(call.next_try));
      }
      polled.push_back(entry);
    }
    for (const auto& call : incoming_) {
      polled.push_back(call->exchange->poll_entry());
      next = earlier(next, call->by);
    }
    if (expects_calls()) {
      const TimePoint time = steady_now();
      acceptor_.add_to(polled, time);
      if (acceptor_.paused_until() > time)
        next = earlier(next, Deadline::at(acceptor_.paused_until()));
    }
    ::poll(polled.data(), polled.size(), poll_timeout(next));
    return polled;
  }

  Result<void> serve_calls(const std::vector<pollfd>& polled) {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (polled[i].revents == 0) continue;
      OutgoingCall& call = calls_[i];
      const auto outcome = serve(call);
      if (!outcome) TALLY_TRY(retry(call, outcome.error()));
    }
    return {};
  }

  Result<void> serve(OutgoingCall& call) {
    TALLY_TRY(const bool met, call.exchange->advance());
    if (!met) return {};
    streams_[static_cast<std::size_t>(call.peer)] = call.exchange->take();
    call.exchange.reset();
    return {};
  }

  // A refusal is final. Any other problem may be over at the next attempt: the peer may not listen
  // yet, or may have dropped this connection in favour of a newer one.
  Result<void> retry(OutgoingCall& call, const Error& problem) {
    if (problem.code == ErrorCode::kRefused || problem.code == ErrorCode::kExhausted) {
      Error fatal = problem;
      fatal.peer = call.peer;
      return fatal;
    }
    call.exchange.reset();
    call.last_problem = problem.message;
    ++call.attempt;
    if (call.attempt % call.endpoints.size() != 0) return {};
    call.next_try = steady_now() + call.pause;
    call.pause = std::min(2 * call.pause, kLongestPause);
    return {};
  }

  void serve_incoming(const std::vector<pollfd>& polled) {
    const TimePoint time = steady_now();
    std::deque<std::unique_ptr<IncomingCall>> open;
    for (std::size_t i = 0; i < incoming_.size(); ++i) {
      IncomingCall& call = *incoming_[i];
      if (polled[calls_.size() + i].revents != 0) {
        const auto met = call.exchange->advance();
        if (!met) {
          dismiss(call, met.error());
          continue;
        }
        if (*met) {
          streams_[static_cast<std::size_t>(call.caller)] = call.exchange->take();
          continue;
        }
      }
      call.place.update(call.exchange->stream());
      if (call.place.revoked()) {
        dismiss(call, make_error(ErrorCode::kExhausted, "too many connections without a greeting"));
        continue;
      }
      if (call.by.passed(time)) {
        dismiss(call, {.code = ErrorCode::kTimeout, .message = "no greeting in time"});
        continue;
      }
      open.push_back(std::move(incoming_[i]));
    }
    incoming_ = std::move(open);
  }

  Result<void> accept_calls() {
    if (!expects_calls()) return {};
    auto accepted = acceptor_.accept(steady_now());
    // Connections that are not complete yet may end, which frees their descriptors.
    if (!accepted && !incoming_.empty()) return {};
    if (!accepted) return accepted.error();
    for (const Acceptor::Refusal& refusal : accepted->refused) refused(refusal.why);
    for (Arrival& arrival : accepted->arrivals) {
      IncomingCall& call = *incoming_.emplace_back(std::make_unique<IncomingCall>());
      call.by = Deadline::after(options_.greeting_limit);
      call.place = std::move(arrival.place);
      call.exchange = std::make_unique<GreetingExchange>(
          std::move(arrival.stream),
          GreetingExchange::Host{
              .greeting_bytes = wire::kGreetingBytes,
              .judge = [this, &call](std::span<const std::byte> greeting,
                                     GreetingExchange::Bytes& answer) -> Result<void> {
                TALLY_TRY(const auto decoded,
                          wire::decode_greeting(greeting.first<wire::kGreetingBytes>()));
                return accept(decoded, call, answer);
              }});
    }
    return {};
  }

  void dismiss(const IncomingCall& call, const Error& why) {
    // It was accepted and went away before the answer reached it: that rank may call again.
    if (call.caller != kNoRank) welcomed_[static_cast<std::size_t>(call.caller)] = false;
    refused(why);
  }

  void refused(const Error& why) {
    ++refused_count_;
    last_refusal_ = why.message;
    if (options_.refused) options_.refused(why);
  }

  bool plausible(Rank caller) const {
    return caller > options_.rank && static_cast<std::size_t>(caller) < size_ && wanted(caller);
  }

  Result<void> accept(const wire::Greeting& greeting, IncomingCall& call,
                      GreetingExchange::Bytes& encoded) {
    const wire::GreetingAnswer answer = judge(greeting);
    const wire::EncodedAnswer bytes = wire::encode(answer);
    encoded.assign(bytes.begin(), bytes.end());
    if (answer.status != wire::GreetingStatus::kAccepted) {
      return make_error(ErrorCode::kRefused, greeting.from, "connection of rank {} refused: {}",
                        greeting.from, to_string(answer.status));
    }
    call.caller = greeting.from;
    welcomed_[static_cast<std::size_t>(greeting.from)] = true;
    return {};
  }

  wire::GreetingAnswer judge(const wire::Greeting& greeting) const {
    wire::GreetingAnswer answer{.rank = options_.rank, .generation = options_.generation};
    if (greeting.version != wire::kProtocolVersion) {
      answer.status = wire::GreetingStatus::kOtherVersion;
    } else if (greeting.token != options_.token) {
      answer.status = wire::GreetingStatus::kOtherToken;
    } else if (greeting.generation != options_.generation) {
      answer.status = wire::GreetingStatus::kOtherGeneration;
    } else if (greeting.to != options_.rank || !plausible(greeting.from)) {
      answer.status = wire::GreetingStatus::kOtherRank;
    } else if (welcomed_[static_cast<std::size_t>(greeting.from)]) {
      answer.status = wire::GreetingStatus::kDuplicate;
    }
    return answer;
  }

  const MeshOptions& options_;
  const Deadline by_;
  const std::size_t size_;
  StreamFactory factory_;
  Acceptor acceptor_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<bool> welcomed_;  // by rank: its greeting was accepted
  std::vector<OutgoingCall> calls_;
  std::deque<std::unique_ptr<IncomingCall>> incoming_;  // oldest first
  std::size_t refused_count_ = 0;
  std::string last_refusal_;
};

}  // namespace

Result<std::vector<std::unique_ptr<Stream>>> connect_mesh(Listener& listener,
                                                          const MeshOptions& options, Deadline by) {
  return Mesh(listener, options, by).run();
}

}  // namespace tally::net
