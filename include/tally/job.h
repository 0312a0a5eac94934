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

// Which way messages go. kAuto: shared memory inside a host; between hosts TLS if there is a secret,
// and plain TCP only on loopback.
enum class TransportKind : std::uint8_t { kAuto, kShm, kTcp, kTls };

// What carries the operations. kTally: our own transports. kMpi: an MPI library, for fabrics that are better
// than TCP; the ranks are those that mpirun (or srun) started. MPI has limits of its own: a lost rank ends the
// whole job, nobody is named when a deadline passes, and an operation that missed its deadline ends all
// communicators of the process, because MPI cannot withdraw it: its memory must stay where it is until
// the process ends.
enum class Engine : std::uint8_t { kTally, kMpi };

// With Engine::kMpi: what carries operations between ranks of one host. kAuto takes what was measured to be
// better, which is our shared memory.
enum class MpiInside : std::uint8_t { kAuto, kShm, kMpi };

struct JobOptions {
  Rank rank = 0;
  int size = 1;
  std::optional<int> local_rank;  // unset: counted among the ranks that share a host
  // Where rank 0 hosts the rendezvous: IPv4, IPv6 or a name.
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 29400;
  // Of the first membership; ranks of another one are refused. A job that is started again has a higher one.
  std::uint32_t generation = 1;
  std::optional<Secret> secret;
  TransportKind transport = TransportKind::kAuto;
  std::chrono::milliseconds join_timeout = std::chrono::seconds(60);
  // For operations that give no deadline of their own.
  std::chrono::milliseconds operation_timeout = std::chrono::minutes(5);
  // Log the recent operations of the world communicator on SIGQUIT, instead of dying from it. Not where
  // the program handles the signal itself.
  bool dump_on_sigquit = true;
  // Ranks count as one host only if this text is the same as well; for tests of several hosts.
  std::string host_label;
  // Cores that the ranks of this machine have together, for a launcher that binds each to some of them. 0: as many as
  // this process may use. Ranks that have no core each do not wait busily.
  int host_cores = 0;
  Engine engine = Engine::kTally;
  MpiInside mpi_inside = MpiInside::kAuto;
  // Of the job, for people.
  std::string name;
  // HOST:PORT or [V6]:PORT of the coordinator that watches the job; empty: none. One that cannot be reached is
  // logged, and no reason to fail.
  std::string coordinator;
  // Between two reports to the coordinator.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(1);
};

// Options from RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, TALLY_GENERATION, TALLY_SECRET_FILE,
// TALLY_TRANSPORT, TALLY_TIMEOUT and TALLY_JOIN_TIMEOUT (seconds), TALLY_ENGINE (tally, mpi), TALLY_MPI_INSIDE (auto,
// shm, mpi), TALLY_HOST_LABEL, TALLY_HOST_CORES, TALLY_JOB, TALLY_COORDINATOR and TALLY_HEARTBEAT (seconds), as
// `variable` gives them (nullptr: not set). None of them set: a job of one. kInvalid names the variable that is
// missing or wrong.
Result<JobOptions> options_from(const std::function<const char*(const char*)>& variable);

// This process as a member of a job. Threads: as Communicator.
class Job {
 public:
  // Meets the other ranks; returns when all are connected. All who meet get the same verdict: a rank that
  // never came, came twice, or disagrees about size, secret or protocol version fails all of them. One
  // with a wrong secret meets nobody, and has a verdict of its own.
  //
  // With Engine::kMpi all ranks of MPI_COMM_WORLD call it; rank and size are MPI's. The library that knows MPI
  // is loaded at run time: libtally_mpi_openmpi.so or libtally_mpi_mpich.so, by what the program itself uses,
  // else by what started it, else what is there; TALLY_MPI=openmpi or mpich forces one, TALLY_PLUGIN_DIR says
  // where it lies. MPI is initialised unless the program did so, which is then also the one to finalise it;
  // otherwise it is finalised when the process exits, except after an operation that could not be withdrawn.
  // kInvalid says what to install. MPI_Init itself has no deadline.
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
  // All ranks. Lives until close() or reform(); not to be asked for after close() or a failed reform().
  virtual Communicator& world() = 0;

  // After an error: leaves the old group and forms a new one of those who come, with the next generation
  // and ranks closed up in the old order. Every survivor calls it, and all meet at the lowest rank that is
  // not in `lost`, the ranks known to be gone. Others that do not come by the deadline fail the attempt,
  // which may be repeated. Communicators from split() must be closed. kInvalid for ranks inside one process
  // and with Engine::kMpi: a lost rank ends an MPI job.
  virtual Result<void> reform(const std::vector<Rank>& lost, Deadline by) = 0;

  // Tells whoever watches the job that one more step with this many samples is done. Cheap.
  virtual void count_step(std::uint64_t samples) = 0;

  // Leaves in good order; the others are not disturbed unless they still need this rank.
  virtual void close() = 0;
};

}  // namespace tally
