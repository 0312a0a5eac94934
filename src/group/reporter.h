#pragma once
#include <sys/eventfd.h>

#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "group/reporter_connection.h"
#include "group/watch_message.h"
#include "net/socket.h"

namespace tally::group {

// The rank that a Reporter reports on. The Reporter's thread calls these functions; none may make
// the rank's own threads wait.
class Watched {
 public:
  virtual ~Watched() = default;
  virtual Report report() const = 0;
  virtual Trace trace() const = 0;
  // The stack of the thread that uses the communicators.
  virtual std::string stack() const = 0;
  // These ranks of the membership are lost: operations with them end now.
  virtual void lost(const LostRanks& ranks) = 0;
};

// Reports a rank to the coordinator: registers it, sends heartbeats, receives the lost ranks,
// answers requests for stacks and traces. While the coordinator cannot be reached the Reporter
// retries without end, and the rank works on. It has one thread.
class Reporter final {
 public:
  using Options = ReporterOptions;

  // With the coordinator, secret and heartbeat of `options`. kInvalid if options.coordinator is no
  // address.
  static Result<std::unique_ptr<Reporter>> start(const JobOptions& options,
                                                 const Registration& identity,
                                                 std::shared_ptr<Watched> watched);
  // The thread shares `watched` and may use it until close() returns.
  Reporter(const Options& options, const Registration& identity, std::shared_ptr<Watched> watched);
  ~Reporter() { close(); }
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // The process has joined another membership of the job.
  void move_to(const Registration& identity, std::shared_ptr<Watched> watched);
  // Sends the last report, waits for a short time until the coordinator has it, and ends the
  // thread.
  void close();

 private:
  struct Self {
    Registration identity;
    std::shared_ptr<Watched> watched;
    bool moved;
  };

  void wake() const { eventfd_write(wake_.descriptor(), 1); }
  Self self();
  void work(const std::stop_token& stop);
  void wait(TimePoint until) const;
  Report completed(const Self& me) const;
  void obey(const Self& me, const ControlMessage& message);
  void say_goodbye();

  ReporterConnection connection_;  // used by the thread only
  const Duration heartbeat_;
  Mutex mutex_;
  Registration identity_ TALLY_GUARDED_BY(mutex_);
  std::shared_ptr<Watched> watched_ TALLY_GUARDED_BY(mutex_);
  bool moved_ TALLY_GUARDED_BY(mutex_) = false;
  const Descriptor wake_;
  std::jthread thread_;
};

// This process as a rank of the job of `options`.
Registration registration_of(const JobOptions& options, Rank rank, int size,
                             std::uint32_t generation);

// "HOST:PORT" or "[V6]:PORT". kInvalid otherwise.
Result<net::Address> address_from(const std::string& text);

}  // namespace tally::group
