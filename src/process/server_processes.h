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
  // Where directory and servers listen. A host other than this one needs a secret.
  std::string host = "127.0.0.1";
  std::optional<Secret> secret;
  int threads = 0;                       // of each server, as ServerOptions
  std::uint64_t memory_limit_bytes = 0;  // of each server
  std::filesystem::path snapshots;
  std::chrono::milliseconds silence_limit{};  // as DirectoryOptions
  // The `tally` program; empty: the one beside this program.
  std::string program;
  int most_restarts = 3;  // servers that are started in place of dead ones, in all
};

// A directory in this process, and servers as child processes: `tally serve --server`. The servers
// end when this process does, in any way. If a server dies, its replicas take over, and another
// server is started in its place, which copies their parts. The secret goes through a pipe, never
// into arguments or environment. Threads: safe. start() is called on a thread that outlives the
// object: the system kills children with the thread that started them. No other code of the process
// may wait for any child (waitpid(-1)).
class ServerProcesses final {
 public:
  // Returns when the servers are started; they join by themselves. `on_event` receives events of
  // the directory and of processes that end, on other threads.
  static Result<std::unique_ptr<ServerProcesses>> start(const ServerProcessesOptions& options,
                                                        server::EventSink on_event);
  // Ends the servers by their process ids: SIGTERM, after two seconds SIGKILL.
  ~ServerProcesses();
  ServerProcesses(const ServerProcesses&) = delete;
  ServerProcesses& operator=(const ServerProcesses&) = delete;

  // HOST:PORT of the directory, for ClientOptions::directory.
  std::string directory() const { return directory_->address(); }
  // Returns the running processes.
  std::vector<pid_t> processes() const;

 private:
  struct Process {
    pid_t pid = -1;
    Descriptor life;   // write end of its stdin: the server ends when it is closed
    Descriptor watch;  // readable when it has ended
    bool ended = false;
  };

  ServerProcesses(const ServerProcessesOptions& options, server::EventSink on_event)
      : options_(options), on_event_(std::move(on_event)) {}
  // Events are dropped while all servers end.
  void tell(const std::string& sentence) const;
  Result<void> start_server();
  // Starts a server in place of one that died. Returns what became of that, for people.
  std::string replace_server();
  void watch(const std::stop_token& stop);
  std::vector<std::string> look();
  bool all_ended() const;
  void signal_all(int number);

  const ServerProcessesOptions options_;
  const server::EventSink on_event_;
  int restarts_ = 0;  // of the watcher's thread only
  std::atomic<bool> ending_{false};
  std::unique_ptr<server::Directory> directory_;
  mutable Mutex mutex_;
  std::vector<Process> processes_ TALLY_GUARDED_BY(mutex_);
  std::jthread watcher_;
};

}  // namespace tally::process
