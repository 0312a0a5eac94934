#pragma once
#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "adapters/mpi/mpi_process.h"
#include "adapters/mpi/mpi_types.h"
#include "adapters/mpi/operation_plan.h"
#include "collective/schedule.h"

namespace tally::mpi {

// The MPI communicators of one MpiCommunicator, and this rank's place in them.
struct Scene {
  MPI_Comm comm = MPI_COMM_NULL;    // for collectives, and the messages of their schedules
  MPI_Comm points = MPI_COMM_NULL;  // for kSend and kReceive, so that tags of the program are free
  const MpiOps* ops = nullptr;
  Site site;
};

// Counts and displacements as MPI wants them. They stay until the call that took them completes.
struct IntParts {
  std::vector<int> counts;
  std::vector<int> starts;
};

// An operation over MPI, polled until it completes: one non-blocking call of the library, or a
// Schedule whose blocks cross as messages. One object carries out one operation after the other and
// keeps its memory and its schedule, so that a repeated all-reduce allocates nothing.
// Threads: one at a time.
class MpiOperation {
 public:
  // `process` and `scene` outlive it.
  MpiOperation(MpiProcess& process, const Scene& scene) : process_(process), scene_(scene) {}
  MpiOperation(const MpiOperation&) = delete;
  MpiOperation& operator=(const MpiOperation&) = delete;

  // Takes up the next request; calls no MPI. The memory and the counts of the request stay until
  // the operation completes.
  void prepare(const Request& request);

  // Starts the calls that can start and polls the ones in progress. True when this rank's part is
  // complete.
  Result<bool> advance();

  // Gives the operation up with `error`. A receive is cancelled; any other call in progress cannot
  // be cancelled and makes the process's MPI unusable.
  void abandon(const Error& error);

 private:
  // One block of the current step on its way, as messages in order.
  struct Transfer {
    collective::ActionKind kind;
    Rank peer;
    int tag;
    std::byte* data;
    std::size_t count;          // elements
    std::size_t first_request;  // index into requests_
    std::size_t first_slot;     // kCombine: index of its slots
    std::size_t messages;
    std::size_t posted = 0;  // messages
    std::size_t done = 0;
  };

  Result<bool> advance_library_call();
  Result<bool> advance_schedule();
  Result<void> begin_step();
  Result<void> post(Transfer& transfer);
  Result<bool> advance_transfer(Transfer& transfer);
  std::byte* at(const collective::Block& block);
  std::byte* slot(const Transfer& transfer, std::size_t message);
  void reserve_scratch();
  std::size_t length(const Transfer& transfer, std::size_t message) const;
  void divide_result() const;

  MpiProcess& process_;
  const Scene& scene_;
  Request request_;
  bool library_call_ = false;
  bool begun_ = false;
  bool complete_ = false;

  IntParts parts_;  // of a library call
  MPI_Request library_request_ = MPI_REQUEST_NULL;

  collective::Schedule schedule_;
  std::size_t message_elements_ = 0;
  std::size_t step_ = 0;
  std::vector<Transfer> transfers_;       // of the current step
  std::vector<MPI_Request> requests_;     // of the current step
  std::unique_ptr<std::byte[]> scratch_;  // of the schedule, then the slots that arrivals wait in
  std::size_t scratch_bytes_ = 0;
  std::size_t slot_bytes_ = 0;
};

}  // namespace tally::mpi
