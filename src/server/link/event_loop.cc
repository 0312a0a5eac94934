#include "server/link/event_loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/check.h"
#include "base/clock.h"
#include "net/socket.h"

namespace tally::server {
namespace {

constexpr std::size_t kBudgetBytes = std::size_t{1} << 20;
constexpr std::size_t kMostEvents = 64;
// Time for peers to close their end after this side has shut down.
constexpr Duration kGoodbye = std::chrono::milliseconds(200);
constexpr int kGoodbyeLook = 10;

}  // namespace

class EventLoop::LinkSink final : public LinkReceiver::Sink {
 public:
  LinkSink(Owner& owner, Link& link) : owner_(owner), link_(link) {}
  std::span<std::byte> place(const MessageHeader& header) override {
    return owner_.place(link_, header);
  }
  bool deliver(const Message& message) override {
    owner_.deliver(link_, message);
    return !link_.choked();
  }

 private:
  Owner& owner_;
  Link& link_;
};

Result<std::unique_ptr<EventLoop>> EventLoop::make(Owner& owner) {
  Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.open()) return net::socket_error("epoll", errno);
  std::unique_ptr<EventLoop> loop(new EventLoop(owner, std::move(epoll)));
  if (!loop->tasks_.open()) return net::socket_error("eventfd", errno);
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.ptr = nullptr;
  if (::epoll_ctl(loop->epoll_.descriptor(), EPOLL_CTL_ADD, loop->tasks_.descriptor(), &interest) !=
      0)
    return net::socket_error("epoll", errno);
  return loop;
}

void EventLoop::stop(Deadline by) {
  stop_by_.store(by.when());
  stopping_.store(true);
  tasks_.wake();
  if (thread_.joinable()) thread_.join();
}

void EventLoop::add(std::shared_ptr<Link> link) {
  Link& added = *link;
  links_.emplace(&added, std::move(link));
  if (!added.watch(epoll_.descriptor()).has_value()) {
    owner_.ended(added);
    return;
  }
  // A TLS connection may hold decrypted bytes without an epoll event.
  unfinished_.push_back(&added);
}

void EventLoop::remove(Link& link) {
  const auto found = links_.find(&link);
  if (found == links_.end()) return;
  link.unwatch();
  removed_.push_back(std::move(found->second));
  links_.erase(found);
}

void EventLoop::run() {
  std::array<epoll_event, kMostEvents> events;
  while (!stopping_.load()) {
    const int count =
        ::epoll_wait(epoll_.descriptor(), events.data(), kMostEvents, unfinished_.empty() ? -1 : 0);
    TALLY_CHECK(count >= 0 || errno == EINTR);
    bool busy = false;
    std::vector<Link*> again;
    again.swap(unfinished_);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      auto* link = static_cast<Link*>(event.data.ptr);
      if (link == nullptr) {
        tasks_.calm();
      } else if (links_.contains(link)) {
        const bool unfinished = std::erase(again, link) > 0;
        busy = serve(*link, event.events | (unfinished ? EPOLLIN : 0U)) || busy;
      }
    }
    for (Link* link : again) {
      if (links_.contains(link)) busy = serve(*link, EPOLLIN) || busy;
    }
    busy = tasks_.run() || busy;
    if (busy) owner_.settle();
    removed_.clear();
  }
  say_goodbye(Deadline::at(stop_by_.load()));
}

// Returns whether messages arrived.
bool EventLoop::serve(Link& link, std::uint32_t events) {
  const bool was_choked = link.choked();
  const bool writable = (events & EPOLLOUT) == 0 || link.flush(kBudgetBytes);
  if (link.choked() && writable) {
    link.pause_reading();
    return false;
  }
  if (events == EPOLLOUT && writable && !was_choked) return false;
  // Messages that a peer sent before it closed are delivered.
  LinkSink sink(owner_, link);
  const LinkReceiver::Pumped received = link.receive(sink, kBudgetBytes);
  const bool has_more = received.end == LinkReceiver::End::kMore;
  if (!writable || (received.end != LinkReceiver::End::kDrained && !has_more)) {
    owner_.ended(link);
  } else if (has_more) {
    unfinished_.push_back(&link);
  }
  return received.messages > 0;
}

// Sends queued messages, shuts down the writing side and reads until the peers have closed theirs:
// closing a socket with unread bytes would reset the connection and discard sent bytes.
void EventLoop::say_goodbye(Deadline by) {
  const SteadyClock clock;
  std::array<epoll_event, kMostEvents> events;
  tasks_.calm();
  const auto is_flushed = [](const auto& link) { return link.first->flushed(); };
  while (!std::all_of(links_.begin(), links_.end(), is_flushed) && !by.passed(clock.now())) {
    ::epoll_wait(epoll_.descriptor(), events.data(), kMostEvents, kGoodbyeLook);
    for (const auto& [link, owner] : links_) link->flush(kBudgetBytes);
  }
  for (const auto& [link, owner] : links_) link->shutdown();
  const Deadline last = earlier(by, clock.after(kGoodbye));
  while (!links_.empty() && !last.passed(clock.now())) {
    ::epoll_wait(epoll_.descriptor(), events.data(), kMostEvents, kGoodbyeLook);
    std::erase_if(links_, [](const auto& link) { return !link.first->discard(); });
  }
  for (const auto& [link, owner] : links_) link->close();
  links_.clear();
  removed_.clear();
}

}  // namespace tally::server
