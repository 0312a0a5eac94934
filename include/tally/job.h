#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tally/communicator.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally {

// A pre-shared key of 32 random bytes, known only to the processes of the job.
struct Secret {
  std::array<std::byte, 32> bytes{};
};

// The transport between ranks. kAuto uses shared memory inside a host. Between hosts it uses TLS if
// the job has a secret; without one it uses TCP, and only on loopback.
enum class TransportKind : std::uint8_t { kAuto, kShm, kTcp, kTls };

// The library that runs the operations. kTally uses Tally's own transports. kMpi uses an MPI
// library, for fabrics that are faster than TCP; mpirun or srun starts the ranks.
// MPI has limits: a lost rank ends the whole job, and a timeout names no rank. MPI cannot cancel an
// operation, so an operation that misses its deadline ends all communicators of the process, and
// its memory must stay in place until the process ends.
enum class Engine : std::uint8_t { kTally, kMpi };

// With Engine::kMpi: the transport between ranks of one host. kAuto uses Tally's shared memory,
// which is faster in measurements.
enum class MpiInside : std::uint8_t { kAuto, kShm, kMpi };

// How the ranks find the rendezvous. With all kinds but kAddress, rank 0 listens on any free port
// if master_port is 0, creates a secret if it has none, and passes both to the other ranks.
enum class Bootstrap : std::uint8_t {
  kAddress,  // from master_address, master_port and `secret` of each rank
  kLocal,    // all ranks on one host: over a local socket named by user and `job_id`
  kPmix,     // through the launcher's PMIx server
  kPmi,      // through the launcher's PMI-1 server, over `pmi_descriptor`
};

struct JobOptions {
  Rank rank = 0;
  int size = 1;  // 0: the size that the PMIx server reports (kPmix, kLocal)
  // Set by the launcher; if unset, computed from the ranks that share a host.
  std::optional<int> local_rank;
  std::optional<int> local_size;
  // Address of rank 0's rendezvous: IPv4, IPv6 or a host name.
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 29400;
  std::optional<Secret> secret;
  TransportKind transport = TransportKind::kAuto;
  // Threads of a rank that move bytes over TCP and TLS. With 1 the thread that calls an operation
  // does all of it; with 2 another thread sends. 0 means 2 if the job has more than two hosts and
  // every rank of this machine has two cores, else 1.
  int tcp_threads = 0;
  std::chrono::milliseconds join_timeout = std::chrono::seconds(60);
  // For operations without a deadline.
  std::chrono::milliseconds operation_timeout = std::chrono::minutes(5);
  Engine engine = Engine::kTally;
  MpiInside mpi_inside = MpiInside::kAuto;

  // Name of the job and of the program that started the ranks, for display.
  std::string name;
  std::string launcher = "none";
  // HOST:PORT or [V6]:PORT of the coordinator that monitors the job; empty: none. If the
  // coordinator cannot be reached, the job logs that and continues.
  std::string coordinator;
  // Interval between two reports to the coordinator.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(1);

  Bootstrap bootstrap = Bootstrap::kAddress;
  // kLocal: equal on all ranks, and different from all other jobs of this user on the host.
  std::string job_id;
  // kPmi: the caller keeps the ownership. kLocal: if set, the process at the other end is part of
  // the job's identity.
  int pmi_descriptor = -1;
  // Rank 0's listening address, as an IP address or the name of a network interface. If empty,
  // kAddress listens on master_address. The other kinds listen on loopback if all ranks are on one
  // host, else on the host's first address that is not loopback.
  std::string listen_on;

  // Generation of the first membership. Ranks with another generation are refused. A restarted job
  // uses a higher one.
  std::uint32_t generation = 1;
  // On SIGQUIT, log the recent operations of the world communicator instead of ending the process.
  // Has no effect if the program handles the signal itself.
  bool dump_on_sigquit = true;
  // Ranks count as one host only if this text is equal, too. Tests use it to simulate several
  // hosts.
  std::string host_label;
};

// Reads the options from environment variables. `variable` returns the value of a variable, or
// nullptr if it is not set. kInvalid names the variable that is missing or wrong.
//
// Rank and size come from the first of these sources that is set: RANK and WORLD_SIZE (torchrun,
// tally run, or set by hand; JOB_COMPLETION_INDEX of a Kubernetes Job replaces RANK), a Slurm step,
// Open MPI, PMIx, Hydra (MPICH). An mpirun inside a Slurm step takes precedence over the step.
// Without any of them the job has one rank.
//
// Rendezvous: with RANK, the ranks use MASTER_ADDR and MASTER_PORT. torchrun's agent already
// listens on that port, so its ranks use kLocal on one host, else the next port. Under the other
// launchers the ranks use kLocal on one host, else the launcher's store. Under Slurm without PMIx
// they use the step's first host, a port from 21000 to 29191 derived from job and step, and the
// secret of TALLY_SECRET_FILE.
//
// TALLY_MEET=address|board|pmix|pmi|slurm selects another rendezvous (auto: as above).
// TALLY_MASTER_ADDR, TALLY_MASTER_PORT and TALLY_INTERFACE override the address and port of a
// launcher.
// Other variables: TALLY_SECRET_FILE (32 bytes or 64 hexadecimal digits, private),
// TALLY_GENERATION, TALLY_TRANSPORT, TALLY_TCP_THREADS (auto, 1, 2), TALLY_TIMEOUT and
// TALLY_JOIN_TIMEOUT (seconds), TALLY_ENGINE (tally, mpi), TALLY_MPI_INSIDE (auto, shm, mpi),
// TALLY_HOST_LABEL, TALLY_JOB, TALLY_COORDINATOR and TALLY_HEARTBEAT (seconds).
Result<JobOptions> options_from(const std::function<const char*(const char*)>& variable);

// This process as a member of a job. Threads: as Communicator.
class Job {
 public:
  // Joins the job; returns when all ranks are connected. All ranks at the rendezvous get the same
  // result: the join fails on all of them if a rank is missing, joins twice, or disagrees about
  // size, secret or protocol version. A rank with a wrong secret cannot enter the rendezvous and
  // gets an error of its own.
  //
  // With Engine::kMpi all ranks of MPI_COMM_WORLD call join(); rank and size are those of MPI.
  // Tally loads its MPI plugin at run time: libtally_mpi_openmpi.so or libtally_mpi_mpich.so. It
  // selects the MPI library that the program uses, else the one that started the program, else the
  // one that is installed. TALLY_MPI=openmpi or mpich selects one explicitly; TALLY_PLUGIN_DIR is
  // the folder of the plugins. kInvalid names the missing package.
  // If the program has initialised MPI, the program also finalises it. Otherwise Tally initialises
  // MPI, and finalises it when the process exits, except after an operation that could not be
  // cancelled. MPI_Init has no deadline.
  static Result<std::unique_ptr<Job>> join(const JobOptions& options);
  // Uses options_from() with the environment of this process.
  static Result<std::unique_ptr<Job>> join();
  // Creates a job of `size` ranks inside this process, one thread each.
  static Result<std::vector<std::unique_ptr<Job>>> in_process(int size);

  virtual ~Job() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  virtual std::uint32_t generation() const = 0;
  // The communicator of all ranks, valid until close() or reform(). Do not call it after close() or
  // a failed reform().
  virtual Communicator& world() = 0;

  // After an error: leaves the old group and forms a new one from the ranks that call reform(),
  // with the next generation. Ranks are renumbered without gaps in the old order. Every surviving
  // rank calls it; the rendezvous is at the lowest rank that is not in `lost`, the list of ranks
  // known to be dead. The attempt fails if another rank is missing at the deadline, and may be
  // repeated. Close all communicators from split() first.
  // Returns kInvalid for a job inside one process and with Engine::kMpi, where a lost rank ends the
  // job.
  virtual Result<void> reform(const std::vector<Rank>& lost, Deadline by) = 0;

  // Facts for `tally status` and `tally inspect trace`, which the next report to the coordinator
  // has. These functions are cheap, and any thread may call them. Trainer calls them.

  // One more step is finished, with this many samples.
  virtual void count_step(std::uint64_t samples) = 0;
  // Sets the number of finished steps, from which count_step() continues: after a restore.
  virtual void set_step(std::uint64_t step) = 0;
  // Sets a figure of the training, such as "loss". A name that ends with "_s" is that of a time in
  // seconds. Up to 16 names are kept.
  virtual void set_figure(std::string_view name, double value) = 0;
  // Records a part of a step, such as "forward", with its times on the steady clock (Deadline). The
  // last 256 are kept.
  virtual void record_phase(std::string_view name, TimePoint started, TimePoint ended) = 0;

  // Leaves the job. Other ranks continue unless an operation still needs this rank.
  virtual void close() = 0;
};

}  // namespace tally
