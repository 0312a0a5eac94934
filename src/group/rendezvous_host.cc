#include <fmt/format.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <atomic>
#include <deque>
#include <list>
#include <thread>
#include <variant>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "group/control.h"
#include "group/gathering.h"
#include "group/rendezvous.h"
#include "net/tls_stream.h"
#include "wire/error_body.h"

namespace tally::group {
namespace {

using net::Stream;

// So long a connection may take to say who it is; and so many may try at once.
constexpr Duration kGreetingTime = std::chrono::seconds(5);
constexpr int kMaxVisitors = 256;
// Kept back from the deadline for telling everybody the verdict.
constexpr Duration kVerdictTime = std::chrono::milliseconds(500);

struct Guest {
  Hello hello;
  std::unique_ptr<Stream> stream;
};
struct Stranger {
  std::string claimed;
  Error why;
  std::unique_ptr<Stream> stream;  // where it can still be told why; may be null
};
using Visitor = std::variant<Guest, Stranger>;

// Threads that each hear one connection out, so that a silent one keeps nobody waiting.
class Reception {
 public:
  Reception(net::Listener& listener, const RendezvousOptions& options, const net::TlsContext* tls)
      : listener_(listener), options_(options), tls_(tls) {}

  // Whoever is still talking is cut off.
  ~Reception() {
    std::list<Visit> visits;
    {
      MutexLock lock(mutex_);
      for (const Visit& visit : visits_)
        if (visit.descriptor >= 0) ::shutdown(visit.descriptor, SHUT_RDWR);
      visits.splice(visits.end(), visits_);
    }
  }

  // Accepts whoever waits and returns the next visitor heard out, or nothing by `by`.
  std::optional<Visitor> next(Deadline by) {
    const SteadyClock clock;
    while (!by.passed(clock.now())) {
      admit_waiting();
      {
        MutexLock lock(mutex_);
        if (!heard_.empty()) {
          Visitor visitor = std::move(heard_.front());
          heard_.pop_front();
          return visitor;
        }
      }
      const Duration look =
          active_ > 0 ? std::chrono::milliseconds(2) : std::chrono::milliseconds(100);
      net::wait_ready(listener_.descriptor(), net::Readiness::kRead,
                      earlier(by, clock.after(look)));
    }
    return std::nullopt;
  }

 private:
  // One connection being heard out.
  struct Visit {
    int descriptor = -1;  // -1 once it belongs to somebody else
    std::jthread thread;  // last: it uses the above
  };

  void admit_waiting() {
    while (active_ < kMaxVisitors) {
      auto socket = listener_.accept_now();
      if (!socket.has_value() || !*socket) return;
      ++active_;
      MutexLock lock(mutex_);
      Visit& visit = visits_.emplace_back();
      visit.descriptor = (*socket)->descriptor();
      visit.thread = std::jthread([this, &visit, peer = *std::move(*socket)]() mutable {
        Visitor visitor = hear(std::move(peer));
        MutexLock inner(mutex_);
        visit.descriptor = -1;
        heard_.push_back(std::move(visitor));
        --active_;
      });
    }
  }

  Visitor hear(net::Socket socket) {
    const Deadline by = Deadline::after(kGreetingTime);
    std::unique_ptr<Stream> stream;
    if (tls_ != nullptr) {
      auto made = tls_->server(std::move(socket));
      if (!made.has_value()) return Stranger{"", made.error(), nullptr};
      stream = *std::move(made);
    } else {
      stream = net::plain_stream(std::move(socket));
    }
    Rank claimed = kNoRank;
    auto hello = listen_to(*stream, by, &claimed);
    if (hello.has_value()) return Guest{*std::move(hello), std::move(stream)};
    std::string identity =
        claimed == kNoRank ? stream->claimed_identity() : fmt::format("tally rank {}", claimed);
    return Stranger{std::move(identity), hello.error(), std::move(stream)};
  }

  Result<Hello> listen_to(Stream& stream, Deadline by, Rank* claimed) {
    TALLY_TRY(net::complete_handshake(stream, by));
    wire::EncodedGreeting encoded;
    TALLY_TRY(net::read_all(stream, encoded, by));
    TALLY_TRY(const wire::Greeting greeting, wire::decode_greeting(encoded));
    *claimed = greeting.from;
    if (greeting.version != wire::kProtocolVersion) {
      return Error{.code = ErrorCode::kRefused,
                   .peer = greeting.from,
                   .message = fmt::format("rank {} speaks protocol version {}, rank {} speaks {}",
                                          greeting.from, greeting.version, options_.hello.rank,
                                          wire::kProtocolVersion)};
    }
    if (greeting.token != options_.token) {
      return Error{.code = ErrorCode::kStale,
                   .peer = greeting.from,
                   .message = fmt::format("rank {} belongs to another job", greeting.from)};
    }
    if (greeting.generation != options_.hello.generation) {
      return Error{.code = ErrorCode::kStale,
                   .peer = greeting.from,
                   .message = fmt::format("rank {} wants generation {}, this is {}", greeting.from,
                                          greeting.generation, options_.hello.generation)};
    }
    TALLY_TRY(const Control control, receive_control(stream, by));
    if (control.kind != ControlKind::kHello)
      return Error{.code = ErrorCode::kCorrupt, .message = "no hello after the greeting"};
    wire::Reader reader(control.body);
    TALLY_TRY(Hello hello, read_hello(reader));
    TALLY_TRY(reader.end());
    return hello;
  }

  net::Listener& listener_;
  const RendezvousOptions& options_;
  const net::TlsContext* const tls_;
  Mutex mutex_;
  std::deque<Visitor> heard_ TALLY_GUARDED_BY(mutex_);
  std::atomic<int> active_{0};
  std::list<Visit> visits_ TALLY_GUARDED_BY(mutex_);
};

class Host {
 public:
  Host(net::Listener& listener, const RendezvousOptions& options, Deadline by)
      : listener_(listener),
        options_(options),
        by_(by),
        gathering_(options.hello.size, options.hello.generation) {}

  Result<Welcome> run(const Connect& connect) {
    const Result<Welcome> outcome = form(connect);
    if (!outcome.has_value()) refuse_all(outcome.error());
    return outcome;
  }

 private:
  Result<Welcome> form(const Connect& connect) {
    TALLY_TRY(gathering_.arrive(options_.hello));
    TALLY_TRY(gather());
    TALLY_TRY(const Welcome welcome, make_welcome());
    wire::Writer writer;
    write(writer, welcome);
    TALLY_TRY(tell_all({ControlKind::kWelcome, writer.take()}));
    TALLY_TRY(connect(welcome));
    TALLY_TRY(hear_all_ready());
    TALLY_TRY(tell_all({ControlKind::kGo, {}}));
    return welcome;
  }

  Result<void> gather() {
    if (options_.secret) {
      TALLY_TRY(tls_, net::TlsContext::make(
                          {.secret = *options_.secret,
                           .identity = fmt::format("tally rank {}", options_.hello.rank)}));
    }
    Reception reception(listener_, options_, tls_.get());
    const Deadline by = Deadline::at(by_.when() - kVerdictTime);
    while (!gathering_.complete()) {
      auto visitor = reception.next(by);
      if (!visitor) return gathering_.verdict_at_deadline();
      if (auto* guest = std::get_if<Guest>(&*visitor)) {
        const auto arrived = gathering_.arrive(guest->hello);
        guests_.push_back(std::move(*guest));
        TALLY_TRY(arrived);
      } else {
        TALLY_TRY(turn_away(std::get<Stranger>(*visitor)));
      }
    }
    return {};
  }

  // A rank of this job with another protocol version ends it for all; others are only turned away.
  Result<void> turn_away(Stranger& stranger) {
    log_warning(fmt::format("rendezvous: turned away {}: {}",
                            stranger.claimed.empty() ? "a stranger" : stranger.claimed,
                            stranger.why.message));
    gathering_.turn_away(stranger.claimed, stranger.why);
    if (stranger.stream != nullptr) {
      (void)send_control(*stranger.stream,
                         {ControlKind::kRefusal, wire::encode_error(stranger.why)},
                         Deadline::after(kVerdictTime));
    }
    const bool proven = stranger.stream != nullptr && stranger.why.code == ErrorCode::kRefused &&
                        (stranger.stream->authenticated() || !options_.secret);
    if (proven && stranger.why.peer != kNoRank) return stranger.why;
    return {};
  }

  Result<Welcome> make_welcome() {
    Welcome welcome{.generation = options_.hello.generation,
                    .token = options_.token,
                    .members = gathering_.members()};
    const bool first = options_.token == wire::JobToken{};
    if (first && getrandom(welcome.token.data(), welcome.token.size(), 0) !=
                     static_cast<ssize_t>(welcome.token.size()))
      return Error{.code = ErrorCode::kSystem, .message = "no random numbers from the system"};
    return welcome;
  }

  Result<void> tell_all(const Control& control) {
    for (Guest& guest : guests_) {
      if (auto sent = send_control(*guest.stream, control, by_); !sent.has_value())
        return lost(guest, sent.error());
    }
    return {};
  }

  Result<void> hear_all_ready() {
    for (Guest& guest : guests_) {
      auto answer = receive_control(*guest.stream, by_);
      if (!answer.has_value()) return lost(guest, answer.error());
      if (answer->kind == ControlKind::kTrouble) return error_in(*answer);
      if (answer->kind != ControlKind::kReady)
        return lost(guest, {.code = ErrorCode::kCorrupt, .message = "an unexpected answer"});
    }
    return {};
  }

  static Error lost(const Guest& guest, const Error& why) {
    return {.code = why.code,
            .peer = guest.hello.rank,
            .message = fmt::format("rank {} (pid {} on {}) while joining: {}", guest.hello.rank,
                                   guest.hello.pid, guest.hello.host_name, why.message)};
  }

  void refuse_all(const Error& why) {
    for (Guest& guest : guests_) {
      (void)send_control(*guest.stream, {ControlKind::kRefusal, wire::encode_error(why)},
                         Deadline::after(kVerdictTime));
    }
  }

  net::Listener& listener_;
  const RendezvousOptions& options_;
  const Deadline by_;
  Gathering gathering_;
  std::unique_ptr<net::TlsContext> tls_;
  std::vector<Guest> guests_;
};

}  // namespace

Result<Welcome> host_rendezvous(net::Listener& listener, const RendezvousOptions& options,
                                const Connect& connect, Deadline by) {
  return Host(listener, options, by).run(connect);
}

}  // namespace tally::group
