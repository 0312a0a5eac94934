#pragma once
#include <string>

#include "tally/server.h"

namespace tally::app {

// Options of `tally serve` for parameter servers.
struct ServeServers {
  bool directory = false;
  bool server = false;  // neither flag: both, in one process
  std::string listen = "127.0.0.1:0";
  std::string directory_at;
  std::string secret_file;
  std::string memory_limit = "0";
  std::string snapshots;
  std::string silence_limit = "5s";
  std::string join_timeout = "60s";
  // Set by a parent process of ours: "plain", or "secret", whose 32 bytes come on stdin. The server
  // ends when stdin does.
  std::string until_stdin_ends;
  int servers = 1;
  int replicas = 0;
  int threads = 0;
};

// Signals end poll(). A signal just before poll() is noticed after this time.
inline constexpr int kLookMilliseconds = 200;

// Prints the sentence with the time of day.
void say(const std::string& sentence);

// Serves until a signal, or until the directory is gone. Returns the exit code.
int serve_servers(const ServeServers& options);

}  // namespace tally::app
