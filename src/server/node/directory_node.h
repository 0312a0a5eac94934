#pragma once
#include <map>
#include <string>

#include "base/mutex.h"
#include "group/local_process.h"
#include "server/node/silence.h"
#include "server/protocol/node.h"
#include "tally/server.h"

namespace tally::server {

// Decides who is a member and which server has which slot, and sends a View to all members after
// each change. The transport numbers the members: a member's number is that of its link. Threads:
// safe.
class DirectoryNode final : public Node {
 public:
  DirectoryNode(NodeTransport& transport, const DirectoryOptions& options, EventSink on_event);

  void on_message(NodeId from, const Message& message) override;
  void on_linked(NodeId) override {}
  void on_lost(NodeId peer, const Error& why) override;
  void settle(TimePoint now) override;

  // The server that joined from this process of the directory's host, also after its end.
  NodeId server_of(std::int64_t pid) const;

  View view() const {
    const MutexLock lock(mutex_);
    return view_;
  }

 private:
  void join(NodeId from, std::span<const std::byte> payload) TALLY_REQUIRES(mutex_);
  void refuse(NodeId to, const Error& why) TALLY_REQUIRES(mutex_);
  // Removes a member from the next view; no effect for other nodes.
  void remove(NodeId peer, const std::string& why) TALLY_REQUIRES(mutex_);
  void become(View next) TALLY_REQUIRES(mutex_);
  void tell_copies(const View& next) TALLY_REQUIRES(mutex_);
  void send_view(NodeId to) TALLY_REQUIRES(mutex_);
  void say(const std::string& sentence) TALLY_REQUIRES(mutex_);
  std::string name_of(NodeId member) const TALLY_REQUIRES(mutex_);

  struct Member {
    TimePoint heard{};  // time of its last message
    group::LocalProcess process;
    bool is_reported = false;  // as silent
    // Of a server: the view in which it has all parts of its slots; 0: none.
    std::uint64_t complete_view = 0;
  };
  void hear(NodeId from) TALLY_REQUIRES(mutex_);
  // Whether another server takes over all slots of this one without a loss.
  bool is_copied(NodeId server) const TALLY_REQUIRES(mutex_);

  NodeTransport& transport_;
  const DirectoryOptions options_;
  const SilenceLimits limits_;
  const EventSink on_event_;
  mutable Mutex mutex_;
  // Number 0 until enough servers have joined; it has the members so far.
  View view_ TALLY_GUARDED_BY(mutex_);
  int copies_ TALLY_GUARDED_BY(mutex_) = 1;
  TimePoint now_ TALLY_GUARDED_BY(mutex_) = TimePoint::zero();
  std::map<NodeId, Member> members_ TALLY_GUARDED_BY(mutex_);
  std::map<std::int64_t, NodeId> local_servers_ TALLY_GUARDED_BY(mutex_);  // by process
};

}  // namespace tally::server
