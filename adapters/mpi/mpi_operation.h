#pragma once
#include <mpi.h>

#include <cstddef>
#include <vector>

#include "adapters/mpi/mpi_collectives.h"
#include "adapters/mpi/mpi_process.h"
#include "adapters/mpi/operation_plan.h"

namespace tally::mpi {

// One operation under way, looked at until it is complete. The request's memory and counts stay
// until then. Threads: one at a time.
class MpiOperation {
 public:
  // `process` and `scene` outlive it.
  MpiOperation(MpiProcess& process, const Scene& scene, const Request& request);
  MpiOperation(const MpiOperation&) = delete;
  MpiOperation& operator=(const MpiOperation&) = delete;

  // Begins what comes next and looks at what is under way. True when this rank's part is complete.
  Result<bool> advance();

  // Gives the operation up with `error`: what can be withdrawn is; if something cannot be, the
  // process's MPI is spoiled.
  void abandon(const Error& error);

 private:
  Result<void> begin_round();
  Result<void> begin(const Piece& piece);
  Result<bool> look();
  void divide() const;

  MpiProcess& process_;
  const Scene& scene_;
  const Request request_;
  IntParts parts_;
  std::vector<Piece> pieces_;  // empty: the request is one call
  std::size_t next_ = 0;       // piece
  bool begun_ = false;

  // What is under way, each with the piece that it is.
  std::vector<MPI_Request> started_;
  std::vector<Piece> started_pieces_;
};

}  // namespace tally::mpi
