#pragma once
#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/tally/launch/hosts.h"
#include "apps/tally/launch/lines.h"
#include "apps/tally/launch/messages.h"
#include "base/descriptor.h"
#include "net/message_connection.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::launch {

// The launcher's connection to one agent: the process that was started for it (the agent itself, or
// a remote shell) and the pipes to that process. Threads: one, which outlives the object.
class AgentLink final {
 public:
  // An empty command runs `own` as the agent, or the current program if `own` is empty.
  static Result<std::unique_ptr<AgentLink>> start(const HostRanks& place,
                                                  const std::vector<std::string>& command,
                                                  const std::string& own = "");
  // Kills the process if it has not ended.
  ~AgentLink();
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  const HostRanks& place() const { return place_; }
  bool remote() const { return remote_; }
  // Whether more messages can arrive.
  bool open() const { return open_; }
  // Whether the agent has answered.
  bool introduced() const { return connection_->introduced(); }
  // The time of the last message, or of the last moment at which the launcher did not read.
  TimePoint heard_at() const { return heard_; }
  void forgive_silence();

  void send(const Message& message);
  // Adds the descriptors for poll(); with `read`, also for reading.
  void add_to(std::vector<pollfd>& entries, bool read) const;
  // Sends queued messages, reads available ones if `read`, and passes each to `take`. kPeerLost,
  // with all known reasons, when the agent has ended or sent an invalid message.
  Result<void> exchange(bool read, const std::function<void(const Message&)>& take);

  // Asks the agent to end by closing its stdin; the agent kills all processes that it started.
  // ended_by() waits for that, and kill() kills the agent itself.
  void close() {
    if (connection_) connection_->shutdown();
  }
  bool ended_by(Deadline by);
  void kill();

 private:
  AgentLink(const HostRanks& place, bool remote) : place_(place), remote_(remote) {}
  void read_errors();
  Error lost(const std::string& why);
  bool reap();

  const HostRanks place_;
  const bool remote_;
  std::string program_;
  pid_t pid_ = -1;
  bool reaped_ = false;
  int status_ = 0;
  std::unique_ptr<net::MessageConnection> connection_;  // to its stdin and stdout
  bool open_ = true;
  Descriptor errors_;
  Tail last_words_{20, 4000};
  TimePoint heard_;
};

}  // namespace tally::launch
