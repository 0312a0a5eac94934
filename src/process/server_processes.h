#pragma once
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/mutex.h"
#include "tally/error.h"
#include "tally/job.h"
#include "tally/server.h"

namespace tally::process {

struct ServerProcessesOptions {
  int servers = 1;
  int replicas = 0;  // as DirectoryOptions
  // Where directory and servers listen. Another host than this one needs a secret.
  std::string host = "127.0.0.1";
  std::optional<Secret> secret;
  int threads = 0;                       // of each server, as ServerOptions
  std::uint64_t memory_limit_bytes = 0;  // of each server
  std::filesystem::path snapshots;
  std::chrono::milliseconds silence_limit = std::chrono::seconds(5);
  // The `tally` program; empty: this one, or the one beside it.
  std::string program;
};

// A directory in this process, and servers as processes of their own: `tally serve --server`. Their
// lives hang on this one's: they end when it does, however that is. A server that dies is not
// started again; the others go on for it. The secret goes through a pipe, never into arguments or
// environment. Threads: safe. start() is called on a thread that outlives the object: the system
// ends children with the thread that started them. Nobody else in the process may wait for any
// child (waitpid(-1)).
class ServerProcesses final {
 public:
  // Returns when the servers are started; they join by themselves. `on_event` hears what the
  // directory tells, and which process ended how; from other threads.
  static Result<std::unique_ptr<ServerProcesses>> start(const ServerProcessesOptions& options,
                                                        server::EventSink on_event);
  // Ends the servers: SIGTERM, after two seconds SIGKILL; by their process ids.
  ~ServerProcesses();
  ServerProcesses(const ServerProcesses&) = delete;
  ServerProcesses& operator=(const ServerProcesses&) = delete;

  // HOST:PORT of the directory, for ClientOptions::directory.
  std::string directory() const { return directory_->address(); }
  // Those that live.
  std::vector<pid_t> processes() const;

 private:
  struct Process {
    pid_t pid = -1;
    Descriptor life;   // the writing end of its stdin: it ends when this is closed
    Descriptor watch;  // readable when it has ended
    bool ended = false;
  };

  explicit ServerProcesses(server::EventSink on_event) : on_event_(std::move(on_event)) {}
  // Nothing is told while all of them end.
  void tell(const std::string& sentence) const;
  Result<void> start_server(const ServerProcessesOptions& options, int number);
  void watch(const std::stop_token& stop);
  void look();
  bool all_ended() const;
  void signal_all(int number);

  const server::EventSink on_event_;
  std::atomic<bool> ending_{false};
  std::unique_ptr<server::Directory> directory_;
  mutable Mutex mutex_;
  std::vector<Process> processes_ TALLY_GUARDED_BY(mutex_);
  std::jthread watcher_;
};

}  // namespace tally::process
