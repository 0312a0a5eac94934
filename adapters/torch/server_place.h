#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "tally/job.h"
#include "tally/server.h"
#include "tally/torch.h"

namespace tally::adapter {

// This rank's way to the parameter servers, and those of them that live in this process: with no
// directory given, rank 0 has one, and the first ranks a server each. Throws Failure.
class ServerPlace final {
 public:
  // Called by all ranks of the job; the job's world is used here and not later. `on_event` hears of
  // servers that come and go, from threads of its own.
  ServerPlace(Job& job, const ServerOptions& options, const server::EventSink& on_event);
  // Servers inside workers stay until all workers are done, unless this one ends by an exception.
  ~ServerPlace();
  ServerPlace(const ServerPlace&) = delete;
  ServerPlace& operator=(const ServerPlace&) = delete;

  server::Client& client() { return *client_; }
  const server::Client& client() const { return *client_; }

 private:
  void wait_for_all(int workers) const;

  const bool colocated_;
  const int exceptions_;
  const std::shared_ptr<std::atomic<bool>> is_leaving_;  // shared with what hears events
  std::unique_ptr<server::Directory> directory_;
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<server::Client> client_;
};

}  // namespace tally::adapter
