#pragma once
#include <mpi.h>

#include "tally/error.h"
#include "tally/types.h"

namespace tally::mpi {

// The library's type of the same width and meaning. Half types travel as 16 bits.
MPI_Datatype type_of(DataType type);

// The operations by which elements are combined: the library's own, and for half types our kernels
// as operations that MPI calls back. kAverage adds: dividing is a step of its own. Made after
// MPI_Init, one per job. Threads: safe to read.
class MpiOps {
 public:
  MpiOps() = default;
  ~MpiOps();
  MpiOps(const MpiOps&) = delete;
  MpiOps& operator=(const MpiOps&) = delete;

  Result<void> make();
  MPI_Op of(DataType type, ReduceOp op) const;

 private:
  static constexpr int kOps = 4;  // sum, min, max, product
  MPI_Op half_[2][kOps] = {{MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL},
                           {MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL}};
};

}  // namespace tally::mpi
