#include "adapters/mpi/mpi_operation.h"

#include <cstring>

#include "adapters/mpi/mpi_points.h"
#include "kernel/reduce/reduce.h"

namespace tally::mpi {
namespace {

// A request that is one call, as a piece: messages have the same form whether they were cut or not.
Piece as_piece(const Request& request) {
  Piece piece{.peer = request.root, .count = request.count};
  if (request.operation == Operation::kSend) piece.kind = PieceKind::kSend;
  if (request.operation == Operation::kReceive) piece.kind = PieceKind::kReceive;
  return piece;
}

}  // namespace

MpiOperation::MpiOperation(MpiProcess& process, const Scene& scene, const Request& request)
    : process_(process), scene_(scene), request_(request) {
  if (!fits(request_, scene_.site)) pieces_ = plan(request_, scene_.site);
}

Result<void> MpiOperation::begin(const Piece& piece) {
  if (piece.kind == PieceKind::kCopy) {
    const std::size_t element = size_of(request_.type);
    std::memcpy(static_cast<std::byte*>(request_.output) + piece.output_at * element,
                static_cast<const std::byte*>(request_.input) + piece.input_at * element,
                piece.count * element);
    return {};
  }
  MPI_Request started = MPI_REQUEST_NULL;
  switch (piece.kind) {
    case PieceKind::kWhole: {
      TALLY_TRY(started, begin_whole(scene_, request_, parts_));
      break;
    }
    case PieceKind::kSend: {
      TALLY_TRY(started, begin_send(scene_, request_, piece));
      break;
    }
    case PieceKind::kReceive: {
      TALLY_TRY(started, begin_receive(scene_, request_, piece));
      break;
    }
    default: {
      TALLY_TRY(started, begin_piece(scene_, request_, piece));
    }
  }
  started_.push_back(started);
  started_pieces_.push_back(piece);
  return {};
}

Result<void> MpiOperation::begin_round() {
  started_.clear();
  started_pieces_.clear();
  if (pieces_.empty() && !begun_) TALLY_TRY(begin(as_piece(request_)));
  begun_ = true;
  if (next_ == pieces_.size()) return {};
  for (const std::size_t round = pieces_[next_].round;
       next_ < pieces_.size() && pieces_[next_].round == round; ++next_)
    TALLY_TRY(begin(pieces_[next_]));
  return {};
}

// Whether everything that is under way is complete.
Result<bool> MpiOperation::look() {
  bool all = true;
  for (std::size_t i = 0; i < started_.size(); ++i) {
    if (started_[i] == MPI_REQUEST_NULL) continue;
    int done = 0;
    MPI_Status status;
    TALLY_TRY(outcome_of(MPI_Test(&started_[i], &done, &status), "MPI_Test"));
    if (done == 0) {
      all = false;
    } else if (started_pieces_[i].kind == PieceKind::kReceive) {
      TALLY_TRY(check_received(status, request_, started_pieces_[i]));
    }
  }
  return all;
}

Result<bool> MpiOperation::advance() {
  {
    const auto entry = process_.enter();
    for (;;) {
      if (begun_) {
        TALLY_TRY(const bool complete, look());
        if (!complete) return false;
        if (next_ == pieces_.size()) break;
      }
      TALLY_TRY(begin_round());
    }
  }
  divide();
  return true;
}

// kAverage: the sum is there, where this rank has a result at all.
void MpiOperation::divide() const {
  if (request_.reduce_op != ReduceOp::kAverage) return;
  std::size_t count = request_.count;
  const auto rank = static_cast<std::size_t>(scene_.site.rank);
  if (request_.operation == Operation::kReduceScatter && !request_.counts.empty())
    count = request_.counts[rank];
  const bool has_result =
      request_.operation == Operation::kAllreduce ||
      request_.operation == Operation::kReduceScatter ||
      (request_.operation == Operation::kReduce && request_.root == scene_.site.rank);
  if (has_result && count > 0)
    kernel::kernels().divide(request_.type, request_.output, count, scene_.site.ranks);
}

void MpiOperation::abandon(const Error& error) {
  if (!process_.usable()) return;
  bool all = next_ == pieces_.size();
  {
    const auto entry = process_.enter();
    for (std::size_t i = 0; i < started_.size(); ++i) {
      if (started_[i] == MPI_REQUEST_NULL) continue;
      const bool receives = started_pieces_[i].kind == PieceKind::kReceive;
      all = receives && withdraw_receive(started_[i]) && all;
    }
  }
  if (!all) process_.spoil(error);
}

}  // namespace tally::mpi
