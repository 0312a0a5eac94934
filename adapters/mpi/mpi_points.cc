#include "adapters/mpi/mpi_points.h"

#include <fmt/format.h>

#include "adapters/mpi/mpi_process.h"

namespace tally::mpi {
namespace {

bool is_point(const Request& request) {
  return request.operation == Operation::kSend || request.operation == Operation::kReceive;
}

MPI_Comm comm_of(const Scene& scene, const Request& request) {
  return is_point(request) ? scene.points : scene.comm;
}

int tag_of(const Request& request) { return is_point(request) ? static_cast<int>(request.tag) : 0; }

}  // namespace

Result<MPI_Request> begin_send(const Scene& scene, const Request& request, const Piece& piece) {
  MPI_Request started = MPI_REQUEST_NULL;
  const auto* input = static_cast<const std::byte*>(request.input);
  if (input != nullptr) input += piece.input_at * size_of(request.type);
  TALLY_TRY(outcome_of(MPI_Isend(input, static_cast<int>(piece.count), type_of(request.type),
                                 piece.peer, tag_of(request), comm_of(scene, request), &started),
                       "MPI_Isend"));
  return started;
}

Result<MPI_Request> begin_receive(const Scene& scene, const Request& request, const Piece& piece) {
  MPI_Request started = MPI_REQUEST_NULL;
  auto* output = static_cast<std::byte*>(request.output);
  if (output != nullptr) output += piece.output_at * size_of(request.type);
  TALLY_TRY(outcome_of(MPI_Irecv(output, static_cast<int>(piece.count), type_of(request.type),
                                 piece.peer, tag_of(request), comm_of(scene, request), &started),
                       "MPI_Irecv"));
  return started;
}

Result<void> check_received(const MPI_Status& status, const Request& request, const Piece& piece) {
  int count = 0;
  TALLY_TRY(outcome_of(MPI_Get_count(&status, type_of(request.type), &count), "MPI_Get_count"));
  if (count == static_cast<int>(piece.count)) return {};
  return Error{.code = ErrorCode::kMismatch,
               .peer = piece.peer,
               .message = fmt::format("rank {} sent {} elements, {} were expected", piece.peer,
                                      count, piece.count)};
}

bool withdraw_receive(MPI_Request& started) {
  constexpr int kLooks = 1000;
  if (MPI_Cancel(&started) != MPI_SUCCESS) return false;
  int done = 0;
  for (int look = 0; look < kLooks && done == 0; ++look)
    if (MPI_Test(&started, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
  return done != 0;
}

}  // namespace tally::mpi
