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
  bool open() const { return output_.open(); }
  // Whether it has answered at all.
  bool introduced() const { return introduced_; }
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
  void close() { input_.reset(); }
  bool ended_by(Deadline by);
  void kill();

 private:
  AgentLink(const HostRanks& place, bool remote) : place_(place), remote_(remote) {}
  void write();
  void read_errors();
  Result<bool> read_messages();
  bool find_preamble();
  Error lost(const std::string& why);
  bool reap();

  const HostRanks place_;
  const bool remote_;
  std::string program_;
  pid_t pid_ = -1;
  bool reaped_ = false;
  int status_ = 0;
  Descriptor input_;
  Descriptor output_;
  Descriptor errors_;
  std::vector<std::byte> waiting_;
  bool introduced_ = false;  // kPreamble was seen
  std::string before_;       // what came before it
  MessageBuffer incoming_;
  Tail last_words_{20, 4000};
  TimePoint heard_;
};

}  // namespace tally::launch
