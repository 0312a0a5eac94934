#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "group/roster.h"
#include "net/socket.h"
#include "tally/deadline.h"
#include "tally/job.h"

namespace tally::group {

struct CoordinatorOptions {
  std::string job;  // its name, for `tally status`: as is_job_name() wants it
  int size = 1;
  std::uint32_t generation = 1;
  net::Address listen{.host = "127.0.0.1", .port = 0};
  std::optional<Secret> secret;  // set: TLS; without one it listens on loopback only
  // Empty: none. If it is there, of this job and not over, its generation and members are taken
  // from it.
  std::string state_file;
  Duration heartbeat = std::chrono::seconds(1);
  // A rank is unreachable, and reported, after so many.
  int missed_heartbeats = 3;
  // Zero: an unreachable rank is lost at once. Longer: it is until its silence has lasted so long;
  // a link may heal.
  Duration lost_after{};
  Duration stall_warning = std::chrono::seconds(10);
};

// Watches over the ranks of a job: who is there, who is lost, who keeps the others waiting. Tells
// all ranks who is lost, answers `tally status` and `tally inspect`. No operation needs it: without
// it they go on. Threads: has one of its own, which also calls `on_event`; calls here may come from
// any.
class Coordinator final {
 public:
  static Result<std::unique_ptr<Coordinator>> start(
      const CoordinatorOptions& options, std::function<void(const CoordinatorEvent&)> on_event);
  // Ends all its connections. Joins the thread.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Where it listens: with the real port.
  const net::Address& address() const;
  // Under what name `tally status` finds it on this machine.
  const std::string& local_name() const;
  // After a restart of all ranks: those of before are forgotten.
  void begin_generation(std::uint32_t generation, int size);
  // Whoever started the ranks knows at once. `how`: "was killed by signal 9". Nothing happens to
  // ranks that have left in good order; whoever ended well without ever having joined should not be
  // told of.
  void process_ended(Rank rank, const std::string& how);

 private:
  class Impl;
  explicit Coordinator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tally::group
