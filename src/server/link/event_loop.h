#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "server/link/link.h"
#include "server/link/task_queue.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::server {

// A thread that reads and writes its share of the links, each within a budget per turn.
// Threads: post() and stop() any; the rest from inside its own thread.
class EventLoop final {
 public:
  // Called in the loop's thread.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual std::span<std::byte> place(Link& link, const MessageHeader& header) = 0;
    virtual void deliver(Link& link, const Message& message) = 0;
    // Reading or writing has failed: the owner removes the link.
    virtual void ended(Link& link) = 0;
    // After each burst of messages.
    virtual void settle() = 0;
  };

  static Result<std::unique_ptr<EventLoop>> make(Owner& owner);
  ~EventLoop() { stop(Deadline::at(TimePoint::zero())); }
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void start() {
    thread_ = std::jthread([this] { run(); });
  }
  // Runs `task` in the loop's thread, soon; not at all once the loop has ended.
  void post(std::function<void()> task) { tasks_.post(std::move(task)); }
  // Sends queued messages until `by`, closes the links, and ends the thread.
  void stop(Deadline by);

  void add(std::shared_ptr<Link> link);
  // The link stays in memory until the end of this turn.
  void remove(Link& link);

 private:
  class LinkSink;

  EventLoop(Owner& owner, Descriptor epoll) : owner_(owner), epoll_(std::move(epoll)) {}
  void run();
  bool serve(Link& link, std::uint32_t events);
  void say_goodbye(Deadline by);

  Owner& owner_;
  const Descriptor epoll_;
  TaskQueue tasks_;
  std::unordered_map<Link*, std::shared_ptr<Link>> links_;
  std::vector<std::shared_ptr<Link>> removed_;
  std::vector<Link*> unfinished_;  // links that used up their budget

  std::atomic<bool> stopping_{false};
  std::atomic<TimePoint> stop_by_{TimePoint::max()};
  std::jthread thread_;
};

}  // namespace tally::server
