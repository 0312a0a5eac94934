#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "server/protocol/node.h"
#include "tally/server.h"

namespace tally::server {

struct DirectoryRules {
  int servers = 1;  // nothing is served before so many have come
  int replicas =
      0;  // copies of each part, primary included; 0: two, or one where there is one server
  Duration silence_limit =
      std::chrono::seconds(5);  // a member that says nothing for so long is given up
};

// Tells everybody who is there and who serves what: a View whenever that has changed. Numbers are
// given by whoever drives it: a member's number is that of its link. Threads: safe.
class DirectoryNode final : public Node {
 public:
  DirectoryNode(NodeTransport& transport, const DirectoryRules& rules, EventSink on_event);

  void on_message(NodeId from, const Message& message) override;
  std::span<std::byte> place(NodeId from, const MessageHeader& header) override;
  void on_linked(NodeId peer) override;
  void on_lost(NodeId peer, const Error& why) override;
  void settle(TimePoint now) override;

  View view() const;

 private:
  void join(NodeId from, std::span<const std::byte> payload) TALLY_REQUIRES(mutex_);
  void refuse(NodeId to, const Error& why) TALLY_REQUIRES(mutex_);
  void found_if_complete() TALLY_REQUIRES(mutex_);
  // The member is out of the next view. Nothing for who is no member.
  void remove(NodeId peer, const std::string& why) TALLY_REQUIRES(mutex_);
  void become(View next) TALLY_REQUIRES(mutex_);
  void send_view(NodeId to) TALLY_REQUIRES(mutex_);
  void say(const std::string& sentence) TALLY_REQUIRES(mutex_);

  NodeTransport& transport_;
  const DirectoryRules rules_;
  const EventSink on_event_;
  mutable Mutex mutex_;
  // Number 0 until enough servers have come; until then it has who came so far.
  View view_ TALLY_GUARDED_BY(mutex_);
  int copies_ TALLY_GUARDED_BY(mutex_) = 1;
  TimePoint now_ TALLY_GUARDED_BY(mutex_) = TimePoint::zero();
  std::map<NodeId, TimePoint> heard_
      TALLY_GUARDED_BY(mutex_);  // members, and when they last said something
};

}  // namespace tally::server
