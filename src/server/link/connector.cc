#include "server/link/connector.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/clock.h"
#include "net/local_socket.h"

namespace tally::server {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(20);
constexpr Duration kPatience = std::chrono::seconds(5);
// As many workers as this may greet at the same time; others try again.
constexpr std::size_t kPlaces = 256;
constexpr Duration kFirstPause = std::chrono::milliseconds(5);
constexpr Duration kLongestPause = std::chrono::milliseconds(250);

// One thread reads a link while another writes.
std::unique_ptr<net::Stream> for_two_threads(std::unique_ptr<net::Stream> stream) {
  return stream->encrypted() ? net::synchronized(std::move(stream)) : std::move(stream);
}

}  // namespace

Connector::Connector(Owner& owner, Ways ways)
    : owner_(owner),
      ways_(std::move(ways)),
      acceptor_({.listener = ways_.listener ? &*ways_.listener : nullptr,
                 .local_listener = &ways_.local_listener,
                 .streams = &ways_.streams,
                 .places = kPlaces}) {}

Result<std::unique_ptr<Connector>> Connector::make(Owner& owner, Ways ways) {
  std::unique_ptr<Connector> connector(new Connector(owner, std::move(ways)));
  if (!connector->tasks_.open()) return net::socket_error("eventfd", errno);
  return connector;
}

void Connector::stop() {
  stopping_.store(true);
  tasks_.wake();
  if (thread_.joinable()) thread_.join();
}

void Connector::dial(Target target) {
  tasks_.post([this, target = std::move(target)] {
    Dial& dial = dials_[target.id];
    dial = Dial{};
    dial.target = target;
    dial.pause = kFirstPause;
  });
}

void Connector::run() {
  TimePoint next_tick{};
  while (!stopping_.load()) {
    tasks_.run();
    accept_all(SteadyClock().now());
    serve_callers(SteadyClock().now());
    serve_dials(SteadyClock().now());
    if (SteadyClock().now() >= next_tick) {
      owner_.tick(SteadyClock().now());
      next_tick = SteadyClock().now() + kTick;
    }
    wait(SteadyClock().now(), next_tick);
  }
}

void Connector::accept_all(TimePoint now) {
  auto accepted = acceptor_.accept(now);
  if (!accepted.has_value()) return;  // tries again after a pause
  for (const auto& refusal : accepted->refused)
    owner_.turned_away(refusal.from, refusal.why.message);
  for (net::Arrival& arrival : accepted->arrivals) admit(std::move(arrival), now);
}

void Connector::admit(net::Arrival arrival, TimePoint now) {
  Caller& caller = callers_.emplace_back();
  caller.from = std::move(arrival.from);
  caller.place = std::move(arrival.place);
  caller.give_up = now + kPatience;
  caller.exchange.emplace(
      for_two_threads(std::move(arrival.stream)),
      accepting_link([this](const LinkGreeting& greeting) { return owner_.judge(greeting); },
                     caller.greeting));
}

void Connector::serve_callers(TimePoint now) {
  callers_.remove_if([&](Caller& caller) {
    const auto step = caller.exchange->advance();
    caller.place.update(caller.exchange->stream());
    const bool over = caller.place.revoked() || now >= caller.give_up;
    if (step.has_value() && !*step && !over) return false;
    if (!step.has_value()) {
      owner_.turned_away(caller.from, step.error().message);
    } else if (*step) {
      owner_.came(caller.exchange->take(), caller.greeting);
    } else {
      owner_.turned_away(caller.from, caller.place.revoked() ? "too many connections say nothing"
                                                             : "it did not say who it is");
    }
    return true;
  });
}

Result<void> Connector::begin(Dial& dial) {
  const Target& target = dial.target;
  const auto caller = calling_link(owner_.greeting_to(target.id), dial.answer);
  if (!target.local_name.empty()) {
    TALLY_TRY(Descriptor socket, net::connect_locally(target.local_name));
    TALLY_TRY(net::peer_of_same_user(socket.descriptor()));
    ::fcntl(socket.descriptor(), F_SETFL, O_NONBLOCK);
    dial.exchange.emplace(net::local_stream(std::move(socket)), caller);
    return {};
  }
  TALLY_CHECK(target.endpoint.has_value());
  TALLY_TRY(net::Socket socket, net::start_connect(*target.endpoint));
  TALLY_TRY(auto stream, ways_.streams.client(std::move(socket)));
  dial.exchange.emplace(for_two_threads(std::move(stream)), caller);
  return {};
}

void Connector::fail(Dial& dial, const Error& why, TimePoint now) {
  dial.exchange.reset();
  dial.next = now + dial.pause;
  dial.pause = std::min(2 * dial.pause, kLongestPause);
  owner_.missed(dial.target.id, why);
}

void Connector::serve_dials(TimePoint now) {
  for (auto at = dials_.begin(); at != dials_.end();) {
    Dial& dial = at->second;
    if (!dial.exchange && now >= dial.next) {
      if (const auto begun = begin(dial); begun.has_value()) {
        dial.give_up = now + kPatience;
      } else {
        fail(dial, begun.error(), now);
      }
    }
    bool over = false;
    if (dial.exchange) {
      const auto step = dial.exchange->advance();
      if (!step.has_value()) {
        fail(dial, step.error(), now);
      } else if (*step) {
        owner_.reached(dial.exchange->take(), dial.answer);
        over = true;
      } else if (now >= dial.give_up) {
        fail(dial, make_error(ErrorCode::kTimeout, "no answer"), now);
      }
    }
    at = over ? dials_.erase(at) : std::next(at);
  }
}

void Connector::wait(TimePoint now, TimePoint next_tick) {
  std::vector<pollfd> watched = {{.fd = tasks_.descriptor(), .events = POLLIN, .revents = 0}};
  acceptor_.add_to(watched, now);
  for (const Caller& caller : callers_) watched.push_back(caller.exchange->poll_entry());
  TimePoint wake_at = next_tick;
  for (const auto& [id, dial] : dials_) {
    if (dial.exchange) {
      watched.push_back(dial.exchange->poll_entry());
    } else {
      wake_at = std::min(wake_at, dial.next);
    }
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(wake_at - now).count();
  ::poll(watched.data(), watched.size(), static_cast<int>(std::clamp<long>(left, 0, 1000)));
  if (watched.front().revents != 0) tasks_.calm();
}

}  // namespace tally::server
