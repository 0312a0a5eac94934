#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "tally/job.h"
#include "tally/server.h"
#include "tally/torch.h"

namespace tally::adapter {

// The directory of `servers` servers inside workers, which rank 0 runs.
server::DirectoryOptions directory_options(const ServerOptions& options, int servers);
// The options, with the directory and the secret that `tally run --servers` has put into the
// environment if the options name no servers. Failure if the secret cannot be read.
ServerOptions with_launcher(ServerOptions options,
                            const std::function<const char*(const char*)>& variable);

// This rank's connection to the parameter servers, and the servers in this process: if no directory
// is given, rank 0 runs one, and the first ranks run a server each. Throws Failure.
class ServerPlace final {
 public:
  // Called by all ranks of the job; uses the job's world only during construction. `on_event` is
  // called when servers join or leave, from other threads.
  ServerPlace(Job& job, const ServerOptions& options, const server::EventSink& on_event);
  // Servers inside workers run until all workers are done, unless an exception ends this worker.
  ~ServerPlace();
  ServerPlace(const ServerPlace&) = delete;
  ServerPlace& operator=(const ServerPlace&) = delete;

  server::Client& client() { return *client_; }
  const server::Client& client() const { return *client_; }

 private:
  void wait_for_all(int workers) const;

  const bool colocated_;
  const int exceptions_;
  const std::shared_ptr<std::atomic<bool>> is_leaving_;  // shared with the event callback
  std::unique_ptr<server::Directory> directory_;
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<server::Client> client_;
};

}  // namespace tally::adapter
