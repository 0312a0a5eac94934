#pragma once
#include <mpi.h>

#include "tally/error.h"
#include "tally/types.h"

namespace tally::mpi {

// The MPI datatype of the same width and meaning. Half types are sent as 16-bit integers.
MPI_Datatype type_of(DataType type);

// MPI_Op by type and operation: the library's own, and for half types our kernels as operations
// that MPI calls back. kAverage sums; the caller divides. One object per job, made after MPI_Init.
// Threads: safe to read.
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
