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

// The launcher's end of one agent: the process that it was started by (the agent itself, or a
// remote shell) and the pipes to it. Threads: one, which outlives the object.
class AgentLink final {
 public:
  // An empty command runs the program `own` as the agent, or where that is empty the one that is
  // running.
  static Result<std::unique_ptr<AgentLink>> start(const HostRanks& place,
                                                  const std::vector<std::string>& command,
                                                  const std::string& own = "");
  // Ends it by force if it has not ended; see end().
  ~AgentLink();
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  const HostRanks& place() const { return place_; }
  bool remote() const { return remote_; }
  // Whether more can come from it.
  bool open() const { return open_; }
  // Whether it has answered at all.
  bool introduced() const { return connection_->introduced(); }
  // When it last said something, or was not listened to.
  TimePoint heard_at() const { return heard_; }
  void forgive_silence();

  void send(const Message& message);
  // Adds what to wait for; `read`: also for messages.
  void add_to(std::vector<pollfd>& entries, bool read) const;
  // Writes what waits, reads what is there if `read`, and gives each message to `take`. kPeerLost,
  // with all that is known of the reason, when the agent has ended or says what makes no sense.
  Result<void> exchange(bool read, const std::function<void(const Message&)>& take);

  // Tells it to end: everything that it started is killed. Whoever is not gone by then is killed
  // itself.
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
