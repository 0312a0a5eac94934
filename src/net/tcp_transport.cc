#include "net/tcp_transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/clock.h"

namespace tally::net {
namespace {

// With so few peers, asking each one directly costs less than asking epoll which one is ready.
constexpr int kFewPeers = 4;
constexpr Duration kQuietTime = std::chrono::milliseconds(50);
constexpr int kEventsAtOnce = 64;
// The mark that epoll reports for the descriptor of wake().
constexpr std::uint64_t kWakeMark = ~std::uint64_t{0};

}  // namespace

// One peer with its incoming and outgoing messages.
struct TcpTransport::Link {
  Link(Rank peer_rank, std::unique_ptr<Stream> connected, std::uint32_t generation,
       Counters& counters)
      : peer(peer_rank),
        stream(std::move(connected)),
        output{.stream = stream.get(),
               .sender = {{.peer = peer_rank,
                           .generation = generation,
                           .checksummed = !stream->encrypted()},
                          counters}},
        receiver({.peer = peer_rank, .generation = generation, .checksummed = !stream->encrypted()},
                 counters) {}

  bool live() const { return stream != nullptr; }
  // Bytes that the peer sent before writing failed are still read: they may be its goodbye, or its
  // own report of the failure.
  bool writable() const { return live() && !output.sender.failed(); }

  const Rank peer;
  std::unique_ptr<Stream> stream;  // nullptr: lost, or gone in good order
  Output output;
  FrameReceiver receiver;
  std::uint32_t interest = 0;  // the events that epoll watches
  bool ready = false;          // the next progress() looks at it in any case
  bool held = false;           // the receiver held off its last frame
};

TcpTransport::TcpTransport(const Config& config, Socket epoll, Socket event)
    : config_(config), epoll_(std::move(epoll)), event_(std::move(event)) {}

TcpTransport::~TcpTransport() = default;

Result<std::unique_ptr<TcpTransport>> TcpTransport::make(
    const Config& config, std::vector<std::unique_ptr<Stream>> streams) {
  TALLY_CHECK(config.rank >= 0 && static_cast<std::size_t>(config.rank) < streams.size());
  TALLY_CHECK(streams[static_cast<std::size_t>(config.rank)] == nullptr);
  Socket epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.open()) return socket_error("epoll_create1", errno);
  Socket event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.open()) return socket_error("eventfd", errno);
  epoll_event wake{.events = EPOLLIN, .data = {.u64 = kWakeMark}};
  if (::epoll_ctl(epoll.descriptor(), EPOLL_CTL_ADD, event.descriptor(), &wake) != 0) {
    return socket_error("epoll_ctl", errno);
  }
  std::unique_ptr<TcpTransport> transport(
      new TcpTransport(config, std::move(epoll), std::move(event)));
  transport->links_.resize(streams.size());
  for (std::size_t peer = 0; peer < streams.size(); ++peer) {
    if (streams[peer] == nullptr) continue;
    TALLY_TRY(transport->add_link(static_cast<Rank>(peer), std::move(streams[peer])));
  }
  if (config.options.sender_thread) {
    TALLY_TRY(transport->sender_thread_,
              SenderThread::start({.budget_bytes = config.options.budget_bytes,
                                   .notify = [&sending = *transport] { sending.notify(); }}));
  }
  return transport;
}

Result<void> TcpTransport::add_link(Rank peer, std::unique_ptr<Stream> stream) {
  const int descriptor = stream->descriptor();
  const auto limit = static_cast<unsigned>(config_.options.unacknowledged_limit.count());
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit));
  epoll_event event{.events = EPOLLIN, .data = {.u64 = static_cast<std::uint64_t>(peer)}};
  if (::epoll_ctl(epoll_.descriptor(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    return socket_error("epoll_ctl", errno);
  }
  auto link = std::make_unique<Link>(peer, std::move(stream), config_.generation, counters_);
  link->interest = EPOLLIN;
  // A stream may have read ahead while it was set up.
  look_again(*link);
  links_[static_cast<std::size_t>(peer)] = std::move(link);
  ++live_count_;
  return {};
}

void TcpTransport::post(Rank to, Outgoing& message) {
  TALLY_CHECK(to >= 0 && to < size() && links_[static_cast<std::size_t>(to)] != nullptr);
  Link& link = *links_[static_cast<std::size_t>(to)];
  if (!link.writable()) return message.finish();
  if (sender_thread_) return sender_thread_->post(link.output, message);
  const bool others_wait = link.output.has_bytes();
  link.output.sender.queue(message);
  if (others_wait) return;
  send(link);
  update_interest(link);
}

void TcpTransport::withdraw(Rank to, Outgoing& message) {
  TALLY_CHECK(to >= 0 && to < size() && links_[static_cast<std::size_t>(to)] != nullptr);
  Link& link = *links_[static_cast<std::size_t>(to)];
  if (sender_thread_) return sender_thread_->withdraw(link.output, message);
  link.output.sender.withdraw(message);
}

bool TcpTransport::progress(Receiver& receiver) {
  look_again_.store(false, std::memory_order_relaxed);
  bool moved = notified_.load() && notified_.exchange(false);
  if (live_count_ <= kFewPeers) {
    for (const auto& link : links_) {
      if (link != nullptr && link->live()) moved |= serve(*link, Touch::kBoth, receiver);
    }
  } else {
    moved |= serve_ready(receiver);
  }
  return moved;
}

bool TcpTransport::serve_ready(Receiver& receiver) {
  bool moved = false;
  for (const auto& link : links_) {
    if (link == nullptr || !link->live()) continue;
    if (link->ready || link->held || link->output.sender.failed()) {
      moved |= serve(*link, Touch::kBoth, receiver);
    }
  }
  std::array<epoll_event, kEventsAtOnce> events;
  const int count = ::epoll_wait(epoll_.descriptor(), events.data(), kEventsAtOnce, 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == kWakeMark) continue;
    Link& link = *links_[event.data.u64];
    if (!link.live()) continue;
    const bool read = (event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0;
    const bool write = (event.events & EPOLLOUT) != 0;
    moved |=
        serve(link, read && write ? Touch::kBoth : (read ? Touch::kRead : Touch::kWrite), receiver);
  }
  return moved;
}

bool TcpTransport::serve(Link& link, Touch touch, Receiver& receiver) {
  if (touch != Touch::kWrite) link.ready = false;
  bool moved = false;
  if (touch != Touch::kRead && !sender_thread_ && link.output.has_bytes()) moved |= send(link);
  if (touch != Touch::kWrite) moved |= receive(link, receiver);
  if (link.live()) update_interest(link);
  return moved;
}

bool TcpTransport::send(Link& link) {
  const auto pumped = link.output.sender.pump(*link.stream, config_.options.budget_bytes);
  if (link.output.sender.failed()) look_again(link);
  return pumped.moved;
}

bool TcpTransport::receive(Link& link, Receiver& receiver) {
  const auto pumped = link.receiver.pump(*link.stream, receiver, config_.options.budget_bytes);
  const bool was_held = std::exchange(link.held, pumped.end == FrameReceiver::End::kHeld);
  // The receiver often accepts the frame at the next call, so epoll's interest changes at the
  // second refusal.
  if (link.held && !was_held) link.ready = true;
  switch (pumped.end) {
    case FrameReceiver::End::kHeld:
      break;
    case FrameReceiver::End::kMore:
      look_again(link);
      break;
    case FrameReceiver::End::kDrained:
      if (link.output.sender.failed()) {
        lose(link, link.output.sender.failure(), receiver);
        return true;
      }
      break;
    case FrameReceiver::End::kGoodbye:
      finish(link);
      break;
    case FrameReceiver::End::kFailed:
      lose(link, link.receiver.failure(), receiver);
      break;
  }
  return pumped.moved || !link.live();
}

void TcpTransport::finish(Link& link) {
  if (sender_thread_) {
    sender_thread_->close(link.output);
  } else {
    link.output.sender.abandon();
    link.output.stream = nullptr;
  }
  link.stream.reset();  // closing the descriptor also ends epoll's interest in it
  link.held = false;
  --live_count_;
}

void TcpTransport::lose(Link& link, const Error& why, Receiver& receiver) {
  const Error reason = why;  // may be a part of the link
  finish(link);
  receiver.lost(link.peer, reason);
}

void TcpTransport::look_again(Link& link) {
  link.ready = true;
  look_again_.store(true, std::memory_order_relaxed);
}

// Runs in the sender thread. The waiter sets waiting_ before it reads notified_, so one of the two
// sees the other.
void TcpTransport::notify() {
  notified_.store(true);
  if (waiting_.exchange(false)) wake();
}

// epoll is level-triggered: wait() returns at once while a watched event is pending. Output is
// therefore watched only while some is queued, and never if a thread sends it. A link whose frame
// the receiver holds off is watched for a hang-up only, and edge-triggered.
void TcpTransport::update_interest(Link& link) {
  const bool reading = !link.held || link.ready;
  std::uint32_t wanted = reading ? EPOLLIN : 0U;
  if (!sender_thread_ && link.output.has_bytes()) wanted |= EPOLLOUT;
  if (wanted == 0) wanted = EPOLLET;
  if (wanted == link.interest) return;
  epoll_event event{.events = wanted, .data = {.u64 = static_cast<std::uint64_t>(link.peer)}};
  TALLY_CHECK(::epoll_ctl(epoll_.descriptor(), EPOLL_CTL_MOD, link.stream->descriptor(), &event) ==
              0);
  link.interest = wanted;
}

void TcpTransport::wait(Deadline by) {
  waiting_.store(true);
  const bool work = look_again_.load(std::memory_order_relaxed) || notified_.load();
  std::array<epoll_event, kEventsAtOnce> events;
  const int count =
      work ? 0 : ::epoll_wait(epoll_.descriptor(), events.data(), kEventsAtOnce, poll_timeout(by));
  waiting_.store(false);
  for (int i = 0; i < count; ++i) {
    if (events[static_cast<std::size_t>(i)].data.u64 != kWakeMark) continue;
    std::uint64_t calls = 0;
    static_cast<void>(::read(event_.descriptor(), &calls, sizeof(calls)) == sizeof(calls));
  }
}

void TcpTransport::wake() {
  const std::uint64_t once = 1;
  static_cast<void>(::write(event_.descriptor(), &once, sizeof(once)) == sizeof(once));
}

void TcpTransport::close() {
  if (sender_thread_) sender_thread_->stop();
  sender_thread_.reset();
  say_goodbye();
  for (const auto& link : links_)
    if (link != nullptr && link->live()) link->stream->shutdown();
  linger();
  for (const auto& link : links_)
    if (link != nullptr && link->live()) finish(*link);
  wake();
}

// Bytes that arrive after this side has closed would cause a reset, which can overtake the goodbye.
// So it reads until the peers have closed too, or nothing has arrived for a moment.
void TcpTransport::linger() {
  const Deadline by = Deadline::after(config_.options.close_limit);
  std::vector<Link*> open;
  for (const auto& link : links_)
    if (link != nullptr && link->live()) open.push_back(link.get());
  while (!open.empty() && !by.passed(SteadyClock().now())) {
    std::vector<pollfd> polled;
    for (const Link* link : open)
      polled.push_back({.fd = link->stream->descriptor(), .events = POLLIN});
    if (::poll(polled.data(), polled.size(),
               poll_timeout(earlier(by, Deadline::after(kQuietTime)))) <= 0)
      return;
    std::erase_if(open, [this](Link* link) { return !discard_input(*link); });
  }
}

// Reads while it sends: two ranks that leave at the same time with much to send would otherwise
// wait for each other.
void TcpTransport::say_goodbye() {
  std::vector<Outgoing> goodbyes(links_.size());
  const Deadline by = Deadline::after(config_.options.close_limit);
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    goodbyes[peer].header.kind = wire::FrameKind::kGoodbye;
    if (links_[peer] != nullptr) post(static_cast<Rank>(peer), goodbyes[peer]);
  }
  while (!by.passed(SteadyClock().now())) {
    std::vector<pollfd> pending;
    for (const auto& link : links_) {
      if (link == nullptr || !link->output.has_bytes()) continue;
      send(*link);
      if (!discard_input(*link)) link->output.sender.fail(end_of(*link->stream, {}));
      if (link->output.has_bytes()) {
        pending.push_back({.fd = link->stream->descriptor(), .events = POLLIN | POLLOUT});
      }
    }
    if (pending.empty()) break;
    ::poll(pending.data(), pending.size(), poll_timeout(by));
  }
  for (const auto& link : links_) {
    if (link != nullptr) link->output.sender.abandon();
  }
}

// False when the peer has ended the connection.
bool TcpTransport::discard_input(Link& link) {
  std::vector<std::byte> scratch(std::size_t{64} << 10);
  for (std::size_t bytes = 0; bytes < config_.options.budget_bytes;) {
    const iovec part{scratch.data(), scratch.size()};
    const Io io = link.stream->read({&part, 1});
    if (io.state == Io::State::kBlocked) return true;
    if (io.state != Io::State::kMoved) return false;
    bytes += io.bytes;
  }
  return true;
}

}  // namespace tally::net
