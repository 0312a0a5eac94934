#include "checkpoint/snapshot.h"

#include <fmt/format.h>

#include <cstring>

#include "base/errors.h"
#include "checkpoint/json.h"
#include "checkpoint/manifest.h"

namespace tally::checkpoint {
namespace {

std::size_t total_bytes(const std::vector<Piece>& pieces) {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes.size();
  return bytes;
}

Result<void> check_pieces(std::span<const TensorInfo> tensors,
                          std::span<const Snapshot::CopiedPiece> pieces) {
  for (const Snapshot::CopiedPiece& piece : pieces) {
    if (piece.tensor >= tensors.size())
      return invalid(fmt::format("a piece of tensor number {}, and there are {}", piece.tensor,
                                 tensors.size()));
    const TensorInfo& tensor = tensors[piece.tensor];
    if (piece.bytes % size_of(tensor.type) != 0)
      return invalid(fmt::format("tensor {}: a piece of {} bytes is not a whole number of elements",
                                 tensor.name, piece.bytes));
  }
  return {};
}

}  // namespace

void Snapshot::take(const Content& content) {
  step_ = content.step;
  tensors_ = content.tensors;
  state_tensors_ = content.state_tensors;
  state_ = content.state;
  rank_state_ = content.rank_state;
  const std::size_t needed_bytes = total_bytes(content.model) + total_bytes(content.optimizer);
  if (memory_.size() < needed_bytes) memory_.resize(needed_bytes);
  used_bytes_ = 0;
  model_ = copy(content.model);
  optimizer_ = copy(content.optimizer);
}

std::vector<Snapshot::CopiedPiece> Snapshot::copy(const std::vector<Piece>& pieces) {
  std::vector<CopiedPiece> copies;
  copies.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    if (piece.bytes.empty()) continue;
    std::memcpy(memory_.data() + used_bytes_, piece.bytes.data(), piece.bytes.size());
    copies.push_back({.tensor = piece.tensor,
                      .first = piece.first,
                      .begin = used_bytes_,
                      .bytes = piece.bytes.size()});
    used_bytes_ += piece.bytes.size();
  }
  return copies;
}

Result<void> Snapshot::check(Rank rank) const {
  TALLY_TRY(check_tensors(tensors_));
  TALLY_TRY(check_tensors(state_tensors_));
  TALLY_TRY(check_pieces(tensors_, model_));
  TALLY_TRY(check_pieces(state_tensors_, optimizer_));
  if (rank_state_.size() > kMaxStateBytes || state_.size() > kMaxStateBytes)
    return invalid(fmt::format("a state of more than {} bytes", kMaxStateBytes));
  if (rank != 0) return {};
  const auto state = parse_json(state_);
  if (!state || !state->is_object()) return invalid("the state is no JSON object");
  return {};
}

std::vector<Range> ranges_of(std::span<const TensorInfo> tensors,
                             std::span<const Snapshot::CopiedPiece> pieces) {
  std::vector<Range> ranges;
  ranges.reserve(pieces.size());
  for (const Snapshot::CopiedPiece& piece : pieces)
    ranges.push_back({.tensor = piece.tensor,
                      .first = piece.first,
                      .count = piece.bytes / size_of(tensors[piece.tensor].type)});
  return ranges;
}

}  // namespace tally::checkpoint
