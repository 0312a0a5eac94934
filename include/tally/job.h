#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tally/communicator.h"
#include "tally/error.h"

namespace tally {

// 32 random bytes that every process of a job knows and nobody else.
struct Secret {
  std::array<std::byte, 32> bytes{};
};

// Which way messages go. kAuto: shared memory inside a host; between hosts TLS if there is a
// secret, and plain TCP only on loopback.
enum class TransportKind : std::uint8_t { kAuto, kShm, kTcp, kTls };

// What carries the operations. kTally: our own transports. kMpi: an MPI library, for fabrics that
// are better than TCP; the ranks are those that mpirun (or srun) started. MPI has limits of its
// own: a lost rank ends the whole job, nobody is named when a deadline passes, and an operation
// that missed its deadline ends all communicators of the process, because MPI cannot withdraw it:
// its memory must stay where it is until the process ends.
enum class Engine : std::uint8_t { kTally, kMpi };

// With Engine::kMpi: what carries operations between ranks of one host. kAuto takes what was
// measured to be better, which is our shared memory.
enum class MpiInside : std::uint8_t { kAuto, kShm, kMpi };

// How the ranks learn where to meet. In all but the first way rank 0 listens on any free port
// (where master_port is 0) and makes a fresh secret if it has none; the others are told both.
enum class Bootstrap : std::uint8_t {
  kAddress,  // they know it: master_address, master_port and `secret`
  kLocal,    // all are on one host: over a local socket that is named by user and `job_id`
  kPmix,     // by the launcher's PMIx server
  kPmi,      // by the launcher's PMI-1 server, over `pmi_descriptor`
};

struct JobOptions {
  Rank rank = 0;
  int size = 1;  // 0: as many as the PMIx server says (kPmix, kLocal)
  // As the launcher said; unset: counted among the ranks that share a host.
  std::optional<int> local_rank;
  std::optional<int> local_size;
  // Where rank 0 hosts the rendezvous: IPv4, IPv6 or a name.
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 29400;
  std::optional<Secret> secret;
  TransportKind transport = TransportKind::kAuto;
  std::chrono::milliseconds join_timeout = std::chrono::seconds(60);
  // For operations that give no deadline of their own.
  std::chrono::milliseconds operation_timeout = std::chrono::minutes(5);
  Engine engine = Engine::kTally;
  MpiInside mpi_inside = MpiInside::kAuto;

  // For people: of the job, and who started the ranks.
  std::string name;
  std::string launcher = "none";
  // HOST:PORT or [V6]:PORT of the coordinator that watches the job; empty: none. One that cannot be
  // reached is logged, and no reason to fail.
  std::string coordinator;
  // Between two reports to the coordinator.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(1);

  Bootstrap bootstrap = Bootstrap::kAddress;
  // kLocal: the same on all ranks, and on no other job of this user on the host.
  std::string job_id;
  // kPmi: stays the caller's. kLocal: if set, the process at its other end belongs to the job's
  // identity.
  int pmi_descriptor = -1;
  // Where rank 0 listens: an address, or a network interface by name. Empty: kAddress listens on
  // master_address; the others on loopback if all ranks are on one host, else on the host's first
  // address that is not loopback.
  std::string listen_on;

  // Of the first membership; ranks of another one are refused. A job that is started again has a
  // higher one.
  std::uint32_t generation = 1;
  // Log the recent operations of the world communicator on SIGQUIT, instead of dying from it. Not
  // where the program handles the signal itself.
  bool dump_on_sigquit = true;
  // Ranks count as one host only if this text is the same as well; for tests of several hosts.
  std::string host_label;
};

// Options from the environment, as `variable` gives it (nullptr: not set). kInvalid names the
// variable that is missing or wrong.
//
// Who this process is comes from the first of these that is there: RANK and WORLD_SIZE (torchrun,
// tally run, by hand; JOB_COMPLETION_INDEX of a Kubernetes Job stands in for RANK), a Slurm step,
// Open MPI, PMIx, Hydra (MPICH). An mpirun inside a Slurm step goes before the step. None of them:
// a job of one.
//
// Where the ranks meet: with RANK at MASTER_ADDR and MASTER_PORT. torchrun's agent listens there
// itself, so under it they meet by kLocal on one host, else at the next port. Under the others by
// kLocal on one host, else by the launcher's store; under Slurm without PMIx at the step's first
// host, at a port from 21000 to 29191 that job and step decide, with the secret of
// TALLY_SECRET_FILE.
//
// TALLY_MEET=address|board|pmix|pmi|slurm decides it otherwise (auto: as above); TALLY_MASTER_ADDR,
// TALLY_MASTER_PORT and TALLY_INTERFACE go before what a launcher says of address and port.
// The rest: TALLY_SECRET_FILE (32 bytes or 64 hexadecimal digits, private), TALLY_GENERATION,
// TALLY_TRANSPORT, TALLY_TIMEOUT and TALLY_JOIN_TIMEOUT (seconds), TALLY_ENGINE (tally, mpi),
// TALLY_MPI_INSIDE (auto, shm, mpi), TALLY_HOST_LABEL, TALLY_JOB, TALLY_COORDINATOR and
// TALLY_HEARTBEAT (seconds).
Result<JobOptions> options_from(const std::function<const char*(const char*)>& variable);

// This process as a member of a job. Threads: as Communicator.
class Job {
 public:
  // Meets the other ranks; returns when all are connected. All who meet get the same verdict: a
  // rank that never came, came twice, or disagrees about size, secret or protocol version fails all
  // of them. One with a wrong secret meets nobody, and has a verdict of its own.
  //
  // With Engine::kMpi all ranks of MPI_COMM_WORLD call it; rank and size are MPI's. The library
  // that knows MPI is loaded at run time: libtally_mpi_openmpi.so or libtally_mpi_mpich.so, by what
  // the program itself uses, else by what started it, else what is there; TALLY_MPI=openmpi or
  // mpich forces one, TALLY_PLUGIN_DIR says where it lies. MPI is initialised unless the program
  // did so, which is then also the one to finalise it; otherwise it is finalised when the process
  // exits, except after an operation that could not be withdrawn. kInvalid says what to install.
  // MPI_Init itself has no deadline.
  static Result<std::unique_ptr<Job>> join(const JobOptions& options);
  // The same with options_from() the process's environment.
  static Result<std::unique_ptr<Job>> join();
  // A job of `size` ranks inside this process, for one thread each.
  static Result<std::vector<std::unique_ptr<Job>>> in_process(int size);

  virtual ~Job() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  virtual std::uint32_t generation() const = 0;
  // All ranks. Lives until close() or reform(); not to be asked for after close() or a failed
  // reform().
  virtual Communicator& world() = 0;

  // After an error: leaves the old group and forms a new one of those who come, with the next
  // generation and ranks closed up in the old order. Every survivor calls it, and all meet at the
  // lowest rank that is not in `lost`, the ranks known to be gone. Others that do not come by the
  // deadline fail the attempt, which may be repeated. Communicators from split() must be closed.
  // kInvalid for ranks inside one process and with Engine::kMpi: a lost rank ends an MPI job.
  virtual Result<void> reform(const std::vector<Rank>& lost, Deadline by) = 0;

  // Tells whoever watches the job that one more step with this many samples is done. Cheap.
  virtual void count_step(std::uint64_t samples) = 0;

  // Leaves in good order; the others are not disturbed unless they still need this rank.
  virtual void close() = 0;
};

}  // namespace tally
