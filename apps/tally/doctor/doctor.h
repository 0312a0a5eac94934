#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "net/socket.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::app::doctor {

// Facts about this machine. An empty text or no value: unknown.
struct MachineFacts {
  std::string kernel;
  std::string processor;
  int cores_online = 1;
  int cores_allowed = 1;              // affinity mask
  std::optional<double> cores_quota;  // limit of the container
  double load = 0;                    // runnable processes, average over one minute
  int numa_nodes = 1;
  bool numa_balancing = false;
  std::string governor;  // of the frequency of processor 0
  std::string clock_source;
  bool clock_synchronised = true;

  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  std::optional<std::uint64_t> memory_limit_bytes;  // limit of the container
  bool memfd_works = true;
  std::optional<std::uint64_t> dev_shm_bytes;
  std::string huge_pages_shared;  // shmem_enabled: always, advise, never, ...
  std::uint64_t open_files_limit = 0;
  bool pidfd_works = true;

  bool loopback_works = true;
  std::string host_name;
  bool host_name_resolves = true;
  bool host_name_is_loopback = false;  // other hosts cannot reach the address of the host name
  std::uint64_t receive_buffer_max_bytes = 0;
};

MachineFacts read_machine();

// Installed software. An empty text: not found.
struct SoftwareFacts {
  std::string open_mpi;  // versions
  std::string mpich;
  std::string slurm;
  std::string ssh;           // path
  std::string gpu;           // "NVIDIA H200, 580.65.06" of the first GPU
  std::string gpu_trouble;   // devices exist, but the driver reports an error
  std::string cuda_library;  // libcuda
  std::string nccl_library;
  std::string libtorch;  // version
  std::string libtorch_path;
  std::string blas;  // the library that libblas.so.3 refers to
};

// Runs the programs to ask for their versions; bounded in time.
SoftwareFacts read_software();

// kProblem: a job will fail. kSlow: a job runs slower than it could. kNote: information.
enum class Level { kOk, kNote, kSlow, kProblem };

std::string_view to_string(Level level);

// Result of one check.
struct Finding {
  Level level = Level::kOk;
  std::string subject;  // "shared memory"
  std::string what;     // the observation
  std::string advice;   // the remedy; empty: none is needed
};

using Findings = std::vector<Finding>;

// Derives findings for a job from the facts. Pure.
Findings judge_machine(const MachineFacts& facts);
Findings judge_software(const SoftwareFacts& facts);

// Facts about another host, as far as it could be asked.
struct PeerFacts {
  std::string host;
  std::string trouble;  // why the host could not be asked; empty: it answered
  // A connection from another host to this one: why it failed; empty: it works.
  struct Path {
    std::string from;
    std::string trouble;
    double round_trip_ms = 0;
  };
  std::vector<Path> paths;
  struct Clock {
    double ahead_ms = 0;        // relative to the clock of this host
    double uncertainty_ms = 0;  // half of the round trip
  };
  std::optional<Clock> clock;
};

Findings judge_peer(const PeerFacts& facts);

// Listens on all addresses of this host until `by`, prints "listening PORT" on stdout, and sends
// every caller its time of day. It reads nothing from callers.
Result<void> serve_probe(Deadline by);

// Result of a call to such a listener.
struct ProbeAnswer {
  double round_trip_ms = 0;
  double clock_ahead_ms = 0;  // the listener's clock against this host's, in the middle of the call
};

Result<ProbeAnswer> call_probe(const net::Address& address, Deadline by);

// Writes and parses "RTT AHEAD", the output of `doctor-probe call`.
std::string to_string(const ProbeAnswer& answer);
Result<ProbeAnswer> parse_probe_answer(const std::string& text);

struct HostsCheckOptions {
  std::vector<std::string> hosts;
  // Called as WORDS... HOST COMMAND...
  std::vector<std::string> remote_shell = {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"};
  std::string remote_tally;  // path of this program on the host
};

// Lets every host listen for a while and has all others, this one included, connect to it, as a job
// would. Takes some seconds and leaves nothing running.
std::vector<PeerFacts> check_hosts(const HostsCheckOptions& options);

}  // namespace tally::app::doctor
