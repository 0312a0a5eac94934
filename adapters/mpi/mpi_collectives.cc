#include "adapters/mpi/mpi_collectives.h"

#include <cstring>

#include "adapters/mpi/mpi_process.h"

namespace tally::mpi {
namespace {

// In place where input and output are the same.
const void* input_of(const void* input, const void* output) {
  return input == output ? MPI_IN_PLACE : input;
}

void fill(IntParts& parts, std::span<const std::size_t> counts) {
  int start = 0;
  for (const std::size_t count : counts) {
    parts.counts.push_back(static_cast<int>(count));
    parts.starts.push_back(start);
    start += static_cast<int>(count);
  }
}

Result<MPI_Request> allreduce(const Scene& scene, const void* input, void* output, int count,
                              const Request& request) {
  MPI_Request started = MPI_REQUEST_NULL;
  TALLY_TRY(outcome_of(
      MPI_Iallreduce(input_of(input, output), output, count, type_of(request.type),
                     scene.ops->of(request.type, request.reduce_op), scene.comm, &started),
      "MPI_Iallreduce"));
  return started;
}

Result<MPI_Request> broadcast(const Scene& scene, const void* input, void* output, int count,
                              Rank root, const Request& request) {
  MPI_Request started = MPI_REQUEST_NULL;
  if (scene.site.rank == root && input != output && count > 0)
    std::memcpy(output, input, static_cast<std::size_t>(count) * size_of(request.type));
  TALLY_TRY(outcome_of(MPI_Ibcast(output, count, type_of(request.type), root, scene.comm, &started),
                       "MPI_Ibcast"));
  return started;
}

Result<MPI_Request> reduce(const Scene& scene, const void* input, void* output, int count,
                           Rank root, const Request& request) {
  MPI_Request started = MPI_REQUEST_NULL;
  const bool at_root = scene.site.rank == root;
  TALLY_TRY(outcome_of(
      MPI_Ireduce(at_root ? input_of(input, output) : input, at_root ? output : nullptr, count,
                  type_of(request.type), scene.ops->of(request.type, request.reduce_op), root,
                  scene.comm, &started),
      "MPI_Ireduce"));
  return started;
}

Result<MPI_Request> reduce_scatter(const Scene& scene, const Request& r, IntParts& parts) {
  MPI_Request started = MPI_REQUEST_NULL;
  const MPI_Op op = scene.ops->of(r.type, r.reduce_op);
  if (r.counts.empty()) {
    TALLY_TRY(outcome_of(MPI_Ireduce_scatter_block(r.input, r.output, static_cast<int>(r.count),
                                                   type_of(r.type), op, scene.comm, &started),
                         "MPI_Ireduce_scatter_block"));
  } else {
    fill(parts, r.counts);
    TALLY_TRY(outcome_of(MPI_Ireduce_scatter(r.input, r.output, parts.counts.data(),
                                             type_of(r.type), op, scene.comm, &started),
                         "MPI_Ireduce_scatter"));
  }
  return started;
}

// Elements that this rank's own part has.
int own_count(const Scene& scene, const Request& request) {
  if (request.counts.empty()) return static_cast<int>(request.count);
  return static_cast<int>(request.counts[static_cast<std::size_t>(scene.site.rank)]);
}

Result<MPI_Request> allgather(const Scene& scene, const Request& r, IntParts& parts) {
  MPI_Request started = MPI_REQUEST_NULL;
  const MPI_Datatype type = type_of(r.type);
  const int own = own_count(scene, r);
  if (r.counts.empty()) {
    TALLY_TRY(
        outcome_of(MPI_Iallgather(r.input, own, type, r.output, own, type, scene.comm, &started),
                   "MPI_Iallgather"));
  } else {
    fill(parts, r.counts);
    TALLY_TRY(outcome_of(MPI_Iallgatherv(r.input, own, type, r.output, parts.counts.data(),
                                         parts.starts.data(), type, scene.comm, &started),
                         "MPI_Iallgatherv"));
  }
  return started;
}

Result<MPI_Request> gather(const Scene& scene, const Request& r, IntParts& parts) {
  MPI_Request started = MPI_REQUEST_NULL;
  const MPI_Datatype type = type_of(r.type);
  const int own = own_count(scene, r);
  if (r.counts.empty()) {
    TALLY_TRY(outcome_of(
        MPI_Igather(r.input, own, type, r.output, own, type, r.root, scene.comm, &started),
        "MPI_Igather"));
  } else {
    fill(parts, r.counts);
    TALLY_TRY(outcome_of(MPI_Igatherv(r.input, own, type, r.output, parts.counts.data(),
                                      parts.starts.data(), type, r.root, scene.comm, &started),
                         "MPI_Igatherv"));
  }
  return started;
}

Result<MPI_Request> scatter(const Scene& scene, const Request& r, IntParts& parts) {
  MPI_Request started = MPI_REQUEST_NULL;
  const MPI_Datatype type = type_of(r.type);
  const int own = own_count(scene, r);
  if (r.counts.empty()) {
    TALLY_TRY(outcome_of(
        MPI_Iscatter(r.input, own, type, r.output, own, type, r.root, scene.comm, &started),
        "MPI_Iscatter"));
  } else {
    fill(parts, r.counts);
    TALLY_TRY(outcome_of(MPI_Iscatterv(r.input, parts.counts.data(), parts.starts.data(), type,
                                       r.output, own, type, r.root, scene.comm, &started),
                         "MPI_Iscatterv"));
  }
  return started;
}

Result<MPI_Request> all_to_all(const Scene& scene, const Request& r) {
  MPI_Request started = MPI_REQUEST_NULL;
  const MPI_Datatype type = type_of(r.type);
  const int each = static_cast<int>(r.count);
  TALLY_TRY(
      outcome_of(MPI_Ialltoall(r.input, each, type, r.output, each, type, scene.comm, &started),
                 "MPI_Ialltoall"));
  return started;
}

}  // namespace

Result<MPI_Request> begin_whole(const Scene& scene, const Request& request, IntParts& parts) {
  const int count = static_cast<int>(request.count);
  switch (request.operation) {
    case Operation::kAllreduce:
      return allreduce(scene, request.input, request.output, count, request);
    case Operation::kReduceScatter:
      return reduce_scatter(scene, request, parts);
    case Operation::kAllgather:
      return allgather(scene, request, parts);
    case Operation::kBroadcast:
      return broadcast(scene, request.input, request.output, count, request.root, request);
    case Operation::kReduce:
      return reduce(scene, request.input, request.output, count, request.root, request);
    case Operation::kGather:
      return gather(scene, request, parts);
    case Operation::kScatter:
      return scatter(scene, request, parts);
    case Operation::kAllToAll:
      return all_to_all(scene, request);
    default:
      break;
  }
  MPI_Request started = MPI_REQUEST_NULL;
  TALLY_TRY(outcome_of(MPI_Ibarrier(scene.comm, &started), "MPI_Ibarrier"));
  return started;
}

Result<MPI_Request> begin_piece(const Scene& scene, const Request& request, const Piece& piece) {
  const std::size_t element = size_of(request.type);
  const auto* input = static_cast<const std::byte*>(request.input);
  auto* output = static_cast<std::byte*>(request.output);
  if (input != nullptr) input += piece.input_at * element;
  if (output != nullptr) output += piece.output_at * element;
  const int count = static_cast<int>(piece.count);
  if (piece.kind == PieceKind::kAllreduce) return allreduce(scene, input, output, count, request);
  if (piece.kind == PieceKind::kReduce)
    return reduce(scene, input, output, count, piece.peer, request);
  return broadcast(scene, input, output, count, piece.peer, request);
}

}  // namespace tally::mpi
