#pragma once
#include <atomic>
#include <cstdint>
#include <functional>

#include "base/mutex.h"
#include "server/protocol/node.h"
#include "tally/deadline.h"

namespace tally::server {

// How those who wait for requests hear that some may be done: many answers that come together are
// told of once. Threads: safe.
class Progress final {
 public:
  // Something may be done; told by the next publish(), or at once outside of a burst of messages.
  void note();
  void publish();
  // Around messages that a publish() follows. By one thread.
  void begin_burst();

  // Waits until `done()`, at most until `by`: false then. Looks at first without sleeping, where
  // there are cores for that.
  bool wait(const std::function<bool()>& done, Deadline by);

 private:
  void wait_for_change(std::uint64_t seen, Deadline by);

  std::atomic<std::uint64_t> changes_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> noted_{false};
  std::atomic<bool> burst_{false};
  Mutex mutex_;
  ConditionVariable changed_;
};

// A node whose progress is told of when a burst of messages has been worked off.
class NotifyingNode final : public Node {
 public:
  NotifyingNode(Node& node, Progress& progress) : node_(node), progress_(progress) {}

  void on_message(NodeId from, const Message& message) override {
    progress_.begin_burst();
    node_.on_message(from, message);
  }
  std::span<std::byte> place(NodeId from, const MessageHeader& header) override {
    return node_.place(from, header);
  }
  void on_linked(NodeId peer) override { node_.on_linked(peer); }
  void on_lost(NodeId peer, const Error& why) override { node_.on_lost(peer, why); }
  void settle(TimePoint now) override {
    node_.settle(now);
    progress_.publish();
  }

 private:
  Node& node_;
  Progress& progress_;
};

}  // namespace tally::server
