#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/layout.h"
#include "tally/checkpoint.h"

namespace tally::checkpoint {

// A copy of one rank's content. take() reuses the memory of the previous copy.
class Snapshot final {
 public:
  struct CopiedPiece {
    std::size_t tensor = 0;
    std::uint64_t first = 0;
    std::size_t begin = 0;  // byte offset in memory_
    std::size_t bytes = 0;
  };

  void take(const Content& content);

  // kInvalid if a tensor or a piece is invalid, a state is too long, or (at rank 0) `state` is no
  // JSON object.
  Result<void> check(Rank rank) const;

  std::uint64_t step() const { return step_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<TensorInfo>& state_tensors() const { return state_tensors_; }
  const std::vector<CopiedPiece>& model() const { return model_; }
  const std::vector<CopiedPiece>& optimizer() const { return optimizer_; }
  const std::string& state() const { return state_; }
  const std::string& rank_state() const { return rank_state_; }
  std::span<const std::byte> bytes_of(const CopiedPiece& piece) const {
    return std::span(memory_).subspan(piece.begin, piece.bytes);
  }

 private:
  std::vector<CopiedPiece> copy(const std::vector<Piece>& pieces);

  std::uint64_t step_ = 0;
  std::vector<TensorInfo> tensors_;
  std::vector<TensorInfo> state_tensors_;
  std::vector<CopiedPiece> model_;
  std::vector<CopiedPiece> optimizer_;
  std::string state_;
  std::string rank_state_;
  std::vector<std::byte> memory_;
  std::size_t used_bytes_ = 0;
};

// The element ranges of the pieces, which have passed check().
std::vector<Range> ranges_of(std::span<const TensorInfo> tensors,
                             std::span<const Snapshot::CopiedPiece> pieces);

}  // namespace tally::checkpoint
