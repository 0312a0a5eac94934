#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/exchange.h"
#include "checkpoint/layout.h"

namespace tally::checkpoint {

// What a rank tells rank 0 before a save: whether its content is sound, and what it has.
struct Claim {
  Result<void> sound;
  std::uint64_t step = 0;
  std::uint32_t tensors_crc32c = 0;  // of both lists
  std::vector<Range> model;
  std::vector<Range> optimizer;
};
Message encode(const Claim& claim);
Result<Claim> decode_claim(const Message& message);

std::uint32_t checksum_of(std::span<const TensorInfo> tensors,
                          std::span<const TensorInfo> state_tensors);

// Rank 0's verdict about everybody's claims. kInvalid, or kMismatch if ranks differ; names the
// rank.
Result<void> check_claims(std::span<const TensorInfo> tensors,
                          std::span<const TensorInfo> state_tensors,
                          const std::vector<Claim>& claims);

// What a rank tells rank 0 when it has written its part, or could not.
struct Written {
  Result<void> done;
  std::vector<std::uint32_t> model_crc32c;  // of its pieces of the model, in the order of its claim
  std::uint64_t optimizer_bytes = 0;        // its file
  std::uint32_t optimizer_crc32c = 0;
};
Message encode(const Written& written);
Result<Written> decode_written(const Message& message);

// The error with the rank that it came from, in words as well.
Error of_rank(Rank rank, const Error& error);

}  // namespace tally::checkpoint
