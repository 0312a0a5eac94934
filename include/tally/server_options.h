#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "tally/job.h"

namespace tally {

// The location of the parameter servers of home=server.
struct ServerOptions {
  // HOST:PORT of the directory. Empty, and `count` 0: that of `tally run --servers`
  // (TALLY_DIRECTORY, with the secret of the job). Else, and without such a launcher, rank 0 runs
  // the directory, and the first `count` workers run one server each.
  std::string directory = {};
  int count = 0;     // servers inside workers; 0: one in each
  int replicas = 0;  // likewise: copies of all data; 0: two, or one if there is only one server
  std::optional<Secret> secret = {};  // as for the job
  // Servers inside workers: the address of this process. Needs a secret unless it is loopback.
  std::string host = "127.0.0.1";
  std::string snapshots = {};  // servers inside workers: snapshot folder; empty: none
  // Servers inside workers: as in server::DirectoryOptions.
  std::chrono::milliseconds silence_limit{};
};

}  // namespace tally
