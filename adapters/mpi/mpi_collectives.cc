#include "adapters/mpi/mpi_collectives.h"

#include <fmt/format.h>

#include <cstring>

#include "adapters/mpi/mpi_process.h"

namespace tally::mpi {
namespace {

IntParts int_parts(std::span<const std::size_t> counts) {
  IntParts parts;
  int start = 0;
  for (const std::size_t count : counts) {
    parts.counts.push_back(static_cast<int>(count));
    parts.starts.push_back(start);
    start += static_cast<int>(count);
  }
  return parts;
}

}  // namespace

Result<MPI_Request> start_library_call(const Scene& scene, const Request& r, IntParts& parts) {
  const MPI_Datatype type = type_of(r.type);
  const MPI_Op op = scene.ops->of(r.type, r.reduce_op);
  const MPI_Comm comm = scene.comm;
  const bool at_root = scene.site.rank == r.root;
  const int count = static_cast<int>(r.count);
  const bool equal = r.counts.empty();
  parts = int_parts(r.counts);
  const int own = equal ? count : parts.counts[static_cast<std::size_t>(scene.site.rank)];
  const int* const counts = parts.counts.data();
  const int* const starts = parts.starts.data();
  const void* const input = r.input == r.output ? MPI_IN_PLACE : r.input;
  MPI_Request started = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  switch (r.operation) {
    case Operation::kAllreduce:
      code = MPI_Iallreduce(input, r.output, count, type, op, comm, &started);
      break;
    case Operation::kBroadcast:
      if (at_root && r.input != r.output && count > 0)
        std::memcpy(r.output, r.input, r.count * size_of(r.type));
      code = MPI_Ibcast(r.output, count, type, r.root, comm, &started);
      break;
    case Operation::kReduce:
      code = at_root ? MPI_Ireduce(input, r.output, count, type, op, r.root, comm, &started)
                     : MPI_Ireduce(r.input, nullptr, count, type, op, r.root, comm, &started);
      break;
    case Operation::kReduceScatter:
      code = equal ? MPI_Ireduce_scatter_block(r.input, r.output, count, type, op, comm, &started)
                   : MPI_Ireduce_scatter(r.input, r.output, counts, type, op, comm, &started);
      break;
    case Operation::kAllgather:
      code = equal ? MPI_Iallgather(r.input, own, type, r.output, own, type, comm, &started)
                   : MPI_Iallgatherv(r.input, own, type, r.output, counts, starts, type, comm,
                                     &started);
      break;
    case Operation::kGather:
      code = equal ? MPI_Igather(r.input, own, type, r.output, own, type, r.root, comm, &started)
                   : MPI_Igatherv(r.input, own, type, r.output, counts, starts, type, r.root, comm,
                                  &started);
      break;
    case Operation::kScatter:
      code = equal ? MPI_Iscatter(r.input, own, type, r.output, own, type, r.root, comm, &started)
                   : MPI_Iscatterv(r.input, counts, starts, type, r.output, own, type, r.root, comm,
                                   &started);
      break;
    case Operation::kAllToAll:
      code = MPI_Ialltoall(r.input, count, type, r.output, count, type, comm, &started);
      break;
    case Operation::kBarrier:
      code = MPI_Ibarrier(comm, &started);
      break;
    case Operation::kSend:
    case Operation::kReceive:
      break;
  }
  TALLY_TRY(outcome_of(code, to_string(r.operation)));
  return started;
}

}  // namespace tally::mpi
