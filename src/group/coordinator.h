#pragma once
#include <poll.h>
#include <sys/eventfd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "group/coordinator_service.h"
#include "group/local_access.h"
#include "net/acceptor.h"
#include "net/socket.h"
#include "net/stream_factory.h"

namespace tally::group {

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
  const net::Address& address() const { return listener_.address(); }
  // The name by which `tally status` finds it on this machine.
  const std::string& local_name() const { return local_.name; }
  // Forgets all ranks, after the launcher has restarted them.
  void begin_generation(std::uint32_t generation, int size);
  // The launcher calls this when the process of a rank has ended. `how`: "was killed by signal 9".
  // The call has no effect on ranks that have left in good order. The launcher does not report
  // ranks that exited with success and never joined.
  void process_ended(Rank rank, const std::string& how);

 private:
  Coordinator(const CoordinatorOptions& options, net::Listener listener, LocalAccess local,
              net::StreamFactory streams, Descriptor wake, CoordinatorService::OnEvent on_event);
  using Command = std::function<void(CoordinatorService& service, TimePoint now)>;
  void post(Command command);
  void wake() const { eventfd_write(wake_.descriptor(), 1); }
  void work(const std::stop_token& stop);
  void wait(TimePoint until);
  void obey(TimePoint now);
  void accept(TimePoint now);

  const CoordinatorOptions options_;
  net::Listener listener_;
  const LocalAccess local_;
  const net::StreamFactory streams_;
  net::Acceptor acceptor_;
  const Descriptor wake_;
  CoordinatorService service_;  // the thread's own, once it runs
  std::vector<pollfd> entries_;
  bool complained_ = false;  // about a failed accept()
  Mutex mutex_;
  std::vector<Command> commands_ TALLY_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace tally::group
