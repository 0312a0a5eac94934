#include "server/link/connector.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "group/local_access.h"
#include "net/local_socket.h"

namespace tally::server {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(20);
constexpr Duration kPatience = std::chrono::seconds(5);
constexpr std::size_t kMostVisitors = 64;
constexpr Duration kFirstPause = std::chrono::milliseconds(5);
constexpr Duration kLongestPause = std::chrono::milliseconds(250);

Result<std::unique_ptr<LinkSocket>> over_tls(const net::TlsContext& tls, net::Socket socket,
                                             bool called) {
  TALLY_TRY(auto stream, called ? tls.server(std::move(socket)) : tls.client(std::move(socket)));
  return tls_link(std::move(stream));
}

short events_for(LinkHandshake::Step step) {
  return step == LinkHandshake::Step::kWantsWrite ? POLLOUT : POLLIN;
}

}  // namespace

Result<std::unique_ptr<Connector>> Connector::make(Owner& owner, Ways ways) {
  Descriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.open()) return net::socket_error("eventfd", errno);
  return std::unique_ptr<Connector>(new Connector(owner, std::move(ways), std::move(event)));
}

Connector::Connector(Owner& owner, Ways ways, Descriptor event)
    : owner_(owner), ways_(std::move(ways)), event_(std::move(event)) {}

Connector::~Connector() { stop(); }

void Connector::start() {
  thread_ = std::jthread([this] { run(); });
}

void Connector::stop() {
  stopping_.store(true);
  wake();
  if (thread_.joinable()) thread_.join();
}

void Connector::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.descriptor(), &one, sizeof(one));
}

void Connector::post(std::function<void()> task) {
  {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake();
}

void Connector::dial(Target target) {
  post([this, target = std::move(target)] {
    Dial& dial = dials_[target.id];
    dial = Dial{};
    dial.target = target;
    dial.pause = kFirstPause;
  });
}

void Connector::forget(NodeId id) {
  post([this, id] { dials_.erase(id); });
}

void Connector::run_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    const MutexLock lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
}

void Connector::run() {
  TimePoint next_tick{};
  while (!stopping_.load()) {
    run_tasks();
    accept_all(SteadyClock().now());
    serve_visitors(SteadyClock().now());
    serve_dials(SteadyClock().now());
    if (SteadyClock().now() >= next_tick) {
      owner_.tick(SteadyClock().now());
      next_tick = SteadyClock().now() + kTick;
    }
    wait(SteadyClock().now(), next_tick);
  }
}

void Connector::accept_all(TimePoint now) {
  if (now < deaf_until_) return;
  while (ways_.listener && visitors_.size() < kMostVisitors) {
    auto socket = ways_.listener->accept_now();
    // Out of descriptors: tries again later.
    if (!socket.has_value()) deaf_until_ = now + kTick;
    if (!socket.has_value() || !socket->has_value()) break;
    const auto address = net::peer_address(**socket);
    const std::string from = address.has_value() ? to_string(*address) : "somebody who left";
    if (ways_.tls == nullptr) {
      admit(plain_link(std::move(**socket)), from, now);
    } else if (auto tls = over_tls(*ways_.tls, std::move(**socket), true); tls.has_value()) {
      admit(*std::move(tls), from, now);
    }
  }
  while (ways_.local_listener.open() && visitors_.size() < kMostVisitors) {
    auto socket = group::accept_local(ways_.local_listener);
    if (!socket.has_value()) deaf_until_ = now + kTick;
    if (!socket.has_value() || !socket->has_value()) break;
    admit(local_link(std::move(**socket)), "a process on this host", now);
  }
}

void Connector::admit(std::unique_ptr<LinkSocket> socket, std::string from, TimePoint now) {
  visitors_.push_back({.opening = LinkHandshake::called(
                           std::move(socket),
                           [this](const LinkGreeting& greeting) { return owner_.judge(greeting); }),
                       .from = std::move(from),
                       .give_up = now + kPatience});
}

void Connector::serve_visitors(TimePoint now) {
  for (auto at = visitors_.begin(); at != visitors_.end();) {
    const auto step = at->opening.advance();
    bool over = true;
    if (!step.has_value()) {
      owner_.turned_away(at->from, step.error().message);
    } else if (*step == LinkHandshake::Step::kDone) {
      owner_.came(at->opening.take_socket(), at->opening.greeting());
    } else if (now >= at->give_up) {
      owner_.turned_away(at->from, "it did not say who it is");
    } else {
      over = false;
    }
    at = over ? visitors_.erase(at) : std::next(at);
  }
}

Result<LinkHandshake> Connector::begin(const Target& target) {
  const LinkGreeting greeting = owner_.greeting_to(target.id);
  if (!target.local_name.empty()) {
    TALLY_TRY(Descriptor socket, net::connect_locally(target.local_name));
    TALLY_TRY(net::peer_of_same_user(socket.descriptor()));
    ::fcntl(socket.descriptor(), F_SETFL, O_NONBLOCK);
    return LinkHandshake::calling(local_link(std::move(socket)), greeting);
  }
  TALLY_CHECK(target.endpoint.has_value());
  TALLY_TRY(net::Socket socket, net::start_connect(*target.endpoint));
  if (ways_.tls == nullptr) return LinkHandshake::calling(plain_link(std::move(socket)), greeting);
  TALLY_TRY(auto tls, over_tls(*ways_.tls, std::move(socket), false));
  return LinkHandshake::calling(std::move(tls), greeting);
}

void Connector::fail(Dial& dial, const Error& why, TimePoint now) {
  dial.opening.reset();
  dial.next = now + dial.pause;
  dial.pause = std::min(2 * dial.pause, kLongestPause);
  owner_.missed(dial.target.id, why);
}

void Connector::serve_dials(TimePoint now) {
  for (auto at = dials_.begin(); at != dials_.end();) {
    Dial& dial = at->second;
    if (!dial.opening && now >= dial.next) {
      if (auto begun = begin(dial.target); begun.has_value()) {
        dial.opening.emplace(*std::move(begun));
        dial.give_up = now + kPatience;
      } else {
        fail(dial, begun.error(), now);
      }
    }
    bool over = false;
    if (dial.opening) {
      const auto step = dial.opening->advance();
      if (!step.has_value()) {
        fail(dial, step.error(), now);
      } else if (*step == LinkHandshake::Step::kDone) {
        owner_.reached(dial.opening->take_socket(), dial.opening->answer());
        over = true;
      } else if (now >= dial.give_up) {
        fail(dial, make_error(ErrorCode::kTimeout, "no answer"), now);
      }
    }
    at = over ? dials_.erase(at) : std::next(at);
  }
}

void Connector::wait(TimePoint now, TimePoint next_tick) {
  std::vector<pollfd> watched = {{.fd = event_.descriptor(), .events = POLLIN, .revents = 0}};
  if (visitors_.size() < kMostVisitors && now >= deaf_until_) {
    if (ways_.listener) watched.push_back({ways_.listener->descriptor(), POLLIN, 0});
    if (ways_.local_listener.open())
      watched.push_back({ways_.local_listener.descriptor(), POLLIN, 0});
  }
  for (const Visitor& visitor : visitors_)
    watched.push_back({visitor.opening.descriptor(), events_for(visitor.opening.wants()), 0});
  TimePoint wake_at = next_tick;
  for (const auto& [id, dial] : dials_) {
    if (dial.opening) {
      watched.push_back({dial.opening->descriptor(), events_for(dial.opening->wants()), 0});
    } else {
      wake_at = std::min(wake_at, dial.next);
    }
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(wake_at - now).count();
  ::poll(watched.data(), watched.size(), static_cast<int>(std::clamp<long>(left, 0, 1000)));
  if (watched.front().revents != 0) {
    std::uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t read = ::read(event_.descriptor(), &ignored, sizeof(ignored));
  }
}

}  // namespace tally::server
