#pragma once
#include <memory>
#include <optional>
#include <string>

#include "group/watch_message.h"
#include "net/socket.h"
#include "tally/job.h"

namespace tally::group {

// The rank that a Reporter speaks for. Called from the Reporter's thread; nothing here may keep the
// rank's own threads waiting.
class Watched {
 public:
  virtual ~Watched() = default;
  virtual Report report() const = 0;
  virtual Trace trace() const = 0;
  // Of the thread that works with the communicators.
  virtual std::string stack() const = 0;
  // These ranks of the membership are gone: operations with them end now.
  virtual void lost(const LostRanks& ranks) = 0;
};

// A rank's line to the coordinator: registers, sends heartbeats, hears who is lost, answers. A
// coordinator that cannot be reached, or goes away, is logged and tried again for ever; the rank
// works on. Has one thread.
class Reporter final {
 public:
  struct Options {
    net::Address coordinator;
    std::optional<Secret> secret;
    Duration heartbeat = std::chrono::seconds(1);
  };

  // The thread keeps `watched` alive as long as it needs it.
  Reporter(const Options& options, const Registration& identity, std::shared_ptr<Watched> watched);
  // As close().
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // The same process in another membership of the job.
  void move_to(const Registration& identity, std::shared_ptr<Watched> watched);
  // Says goodbye, for at most a moment, and ends the thread.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// "HOST:PORT" or "[V6]:PORT". kInvalid otherwise.
Result<net::Address> address_from(const std::string& text);

}  // namespace tally::group
