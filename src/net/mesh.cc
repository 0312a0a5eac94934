#include "net/mesh.h"

#include <poll.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/clock.h"
#include "net/introduction.h"
#include "net/tls_stream.h"

namespace tally::net {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(5);
constexpr Duration kLongestPause = std::chrono::milliseconds(250);
// How many unknown connections may be open beyond those that are expected; the oldest goes first.
constexpr std::size_t kStrangers = 64;

TimePoint now() { return SteadyClock().now(); }

// This rank's attempts to reach a lower one.
struct Call {
  Rank peer = 0;
  std::vector<Endpoint> endpoints;  // each is tried in turn
  std::size_t attempt = 0;
  Duration pause = kFirstPause;
  TimePoint next_try{};
  Socket connecting;                   // open: between start_connect() and finish_connect()
  std::unique_ptr<Introduction> talk;  // after that
  std::string last_problem = "no answer";

  const Endpoint& endpoint() const { return endpoints[attempt % endpoints.size()]; }
  bool idle() const { return !connecting.open() && talk == nullptr; }
};

// Somebody who called this rank.
struct Visit {
  std::unique_ptr<Introduction> talk;
  Deadline by;
};

class Mesh final {
 public:
  Mesh(Listener& listener, const MeshOptions& options, Deadline by)
      : listener_(listener), options_(options), by_(by), size_(options.addresses.size()) {
    streams_.resize(size_);
    welcomed_.resize(size_, false);
  }

  Result<std::vector<std::unique_ptr<Stream>>> run() {
    TALLY_TRY(prepare());
    while (missing() != kNoRank) {
      if (by_.passed(now())) return timed_out();
      TALLY_TRY(start_calls());
      const std::vector<pollfd> polled = poll_all();
      TALLY_TRY(serve_calls(polled));
      serve_visits(polled);
      TALLY_TRY(accept_visits());
    }
    return std::move(streams_);
  }

 private:
  Result<void> prepare() {
    TALLY_CHECK(options_.rank >= 0 && static_cast<std::size_t>(options_.rank) < size_);
    TALLY_CHECK(options_.wanted.empty() || options_.wanted.size() == size_);
    if (options_.secret) {
      TALLY_TRY(tls_, TlsContext::make({.secret = *options_.secret,
                                        .identity = fmt::format("tally rank {}", options_.rank)}));
    }
    for (Rank peer = 0; peer < options_.rank; ++peer) {
      if (!wanted(peer)) continue;
      Call& call = calls_.emplace_back();
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

  bool expects_visits() const {
    for (Rank peer = options_.rank + 1; static_cast<std::size_t>(peer) < size_; ++peer) {
      if (wanted(peer) && streams_[static_cast<std::size_t>(peer)] == nullptr) return true;
    }
    return false;
  }

  Error timed_out() const {
    const Rank peer = missing();
    const std::string where = to_string(options_.addresses[static_cast<std::size_t>(peer)]);
    std::string message = fmt::format("rank {} at {} did not connect", peer, where);
    for (const Call& call : calls_) {
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

  Result<std::unique_ptr<Stream>> stream_over(Socket socket, bool called) const {
    if (tls_ == nullptr) return plain_stream(std::move(socket));
    return called ? tls_->server(std::move(socket)) : tls_->client(std::move(socket));
  }

  Result<void> start_calls() {
    for (Call& call : calls_) {
      if (!call.idle() || done(call) || now() < call.next_try) continue;
      auto socket = start_connect(call.endpoint());
      if (socket) {
        call.connecting = *std::move(socket);
      } else {
        TALLY_TRY(retry(call, socket.error()));
      }
    }
    return {};
  }

  bool done(const Call& call) const {
    return streams_[static_cast<std::size_t>(call.peer)] != nullptr;
  }

  // The listener, then every call, then every visit, in the order in which they are kept; a
  // descriptor of -1 is skipped by poll().
  std::vector<pollfd> poll_all() {
    std::vector<pollfd> polled;
    Deadline next = by_;
    polled.push_back({.fd = expects_visits() ? listener_.descriptor() : -1, .events = POLLIN});
    for (const Call& call : calls_) {
      pollfd entry{.fd = -1, .events = POLLIN};
      if (call.connecting.open()) {
        entry = {.fd = call.connecting.descriptor(), .events = POLLOUT};
      } else if (call.talk != nullptr) {
        entry = poll_entry(*call.talk);
      } else if (!done(call)) {
        next = earlier(next, Deadline::at(call.next_try));
      }
      polled.push_back(entry);
    }
    for (const Visit& visit : visits_) {
      polled.push_back(poll_entry(*visit.talk));
      next = earlier(next, visit.by);
    }
    ::poll(polled.data(), polled.size(), poll_timeout(next));
    return polled;
  }

  static pollfd poll_entry(const Introduction& talk) {
    return {.fd = talk.descriptor(),
            .events = static_cast<short>(talk.wants_write() ? POLLIN | POLLOUT : POLLIN)};
  }

  Result<void> serve_calls(const std::vector<pollfd>& polled) {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (polled[1 + i].revents == 0) continue;
      Call& call = calls_[i];
      const auto outcome = serve(call);
      if (!outcome) TALLY_TRY(retry(call, outcome.error()));
    }
    return {};
  }

  Result<void> serve(Call& call) {
    if (call.connecting.open()) {
      TALLY_TRY(finish_connect(call.connecting, call.endpoint()));
      TALLY_TRY(auto stream, stream_over(std::move(call.connecting), false));
      call.talk = std::make_unique<Introduction>(std::move(stream),
                                                 wire::Greeting{.from = options_.rank,
                                                                .to = call.peer,
                                                                .generation = options_.generation,
                                                                .token = options_.token});
    }
    TALLY_TRY(const bool met, call.talk->advance());
    if (!met) return {};
    streams_[static_cast<std::size_t>(call.peer)] = call.talk->take();
    call.talk.reset();
    return {};
  }

  // A refusal stands. Anything else may be over at the next attempt: the peer may not listen yet,
  // or may have dropped this connection in favour of a newer one.
  Result<void> retry(Call& call, const Error& problem) {
    if (problem.code == ErrorCode::kRefused || problem.code == ErrorCode::kExhausted) {
      Error fatal = problem;
      fatal.peer = call.peer;
      return fatal;
    }
    call.connecting.reset();
    call.talk.reset();
    call.last_problem = problem.message;
    ++call.attempt;
    if (call.attempt % call.endpoints.size() != 0) return {};
    call.next_try = now() + call.pause;
    call.pause = std::min(2 * call.pause, kLongestPause);
    return {};
  }

  void serve_visits(const std::vector<pollfd>& polled) {
    const TimePoint time = now();
    std::deque<Visit> open;
    for (std::size_t i = 0; i < visits_.size(); ++i) {
      Visit& visit = visits_[i];
      if (polled[1 + calls_.size() + i].revents != 0) {
        const auto met = visit.talk->advance();
        if (!met) {
          dismiss(visit, met.error());
          continue;
        }
        if (*met) {
          streams_[static_cast<std::size_t>(visit.talk->caller())] = visit.talk->take();
          continue;
        }
      }
      if (visit.by.passed(time)) {
        dismiss(visit, {.code = ErrorCode::kTimeout, .message = "no greeting in time"});
        continue;
      }
      open.push_back(std::move(visit));
    }
    visits_ = std::move(open);
  }

  Result<void> accept_visits() {
    if (!expects_visits()) return {};
    for (std::size_t i = 0; i < kStrangers; ++i) {
      auto socket = listener_.accept_now();
      if (!socket) {
        if (visits_.empty()) return socket.error();
        dismiss_oldest();
        continue;
      }
      if (!socket->has_value()) return {};
      auto stream = stream_over(**std::move(socket), true);
      if (!stream) return stream.error();
      if (visits_.size() >= kStrangers + size_) dismiss_oldest();
      visits_.push_back({.talk = std::make_unique<Introduction>(
                             *std::move(stream),
                             [this](const wire::Greeting& greeting) { return judge(greeting); }),
                         .by = Deadline::after(options_.greeting_limit)});
    }
    return {};
  }

  void dismiss_oldest() {
    dismiss(visits_.front(),
            {.code = ErrorCode::kExhausted, .message = "too many connections without a greeting"});
    visits_.pop_front();
  }

  void dismiss(const Visit& visit, const Error& why) {
    // It was welcome and went away before it heard so: that rank may call again.
    if (visit.talk->welcomed()) {
      welcomed_[static_cast<std::size_t>(visit.talk->caller())] = false;
    }
    ++refused_count_;
    last_refusal_ = why.message;
    if (options_.refused) options_.refused(why);
  }

  bool plausible(Rank caller) const {
    return caller > options_.rank && static_cast<std::size_t>(caller) < size_ && wanted(caller);
  }

  wire::GreetingAnswer judge(const wire::Greeting& greeting) {
    wire::GreetingAnswer answer{.rank = options_.rank, .generation = options_.generation};
    if (greeting.version != wire::kProtocolVersion) {
      answer.verdict = wire::Verdict::kOtherVersion;
    } else if (greeting.token != options_.token) {
      answer.verdict = wire::Verdict::kOtherToken;
    } else if (greeting.generation != options_.generation) {
      answer.verdict = wire::Verdict::kOtherGeneration;
    } else if (greeting.to != options_.rank || !plausible(greeting.from)) {
      answer.verdict = wire::Verdict::kOtherRank;
    } else if (welcomed_[static_cast<std::size_t>(greeting.from)]) {
      answer.verdict = wire::Verdict::kDuplicate;
    } else {
      welcomed_[static_cast<std::size_t>(greeting.from)] = true;
    }
    return answer;
  }

  Listener& listener_;
  const MeshOptions& options_;
  const Deadline by_;
  const std::size_t size_;
  std::unique_ptr<TlsContext> tls_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<bool> welcomed_;  // by rank: its greeting was found good
  std::vector<Call> calls_;
  std::deque<Visit> visits_;  // oldest first
  std::size_t refused_count_ = 0;
  std::string last_refusal_;
};

}  // namespace

Result<std::vector<std::unique_ptr<Stream>>> connect_mesh(Listener& listener,
                                                          const MeshOptions& options, Deadline by) {
  return Mesh(listener, options, by).run();
}

}  // namespace tally::net
