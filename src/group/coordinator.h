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
  std::string job;  // for `tally status`; is_job_name() holds
  int size = 1;
  std::uint32_t generation = 1;
  net::Address listen{.host = "127.0.0.1", .port = 0};
  std::optional<Secret> secret;  // set: TLS; not set: the coordinator listens on loopback only
  // Empty: none. If the file exists and its job is this one and not over, the coordinator takes
  // generation and members from it.
  std::string state_file;
  Duration heartbeat = std::chrono::seconds(1);
  // A rank counts as unreachable, and is reported, after this many.
  int missed_heartbeats = 3;
  // Zero: an unreachable rank is lost at once. Longer: it is lost once it has been silent for this
  // long, since a network link may recover.
  Duration lost_after{};
  Duration stall_warning = std::chrono::seconds(10);
};

// Watches the ranks of a job: which are present, which are lost, and which keep the others waiting.
// The coordinator tells all ranks which ranks are lost and answers `tally status` and `tally
// inspect`. Operations continue without it. Threads: the coordinator has one of its own, which also
// calls `on_event`; the functions here may be called from any thread.
class Coordinator final {
 public:
  static Result<std::unique_ptr<Coordinator>> start(
      const CoordinatorOptions& options, std::function<void(const CoordinatorEvent&)> on_event);
  // Closes all connections and joins the thread.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // The listening address, with the real port.
  const net::Address& address() const;
  // The name by which `tally status` finds it on this machine.
  const std::string& local_name() const;
  // Forgets all ranks, after the launcher has restarted them.
  void begin_generation(std::uint32_t generation, int size);
  // The launcher calls this when the process of a rank has ended. `how`: "was killed by signal 9".
  // The call has no effect on ranks that have left in good order. The launcher does not report
  // ranks that exited with success and never joined.
  void process_ended(Rank rank, const std::string& how);

 private:
  class Impl;
  explicit Coordinator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tally::group
