#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/layout.h"
#include "tally/communicator.h"

// Messages of any length between the ranks that save together.
namespace tally::checkpoint {

using Message = std::vector<std::byte>;

// Collective. Gathers the messages of all ranks at rank 0, ordered by rank. Other ranks get an
// empty vector.
Result<std::vector<Message>> gather(Communicator& group, const Message& own, Deadline by);

// Collective. Broadcasts rank 0's outcome: all ranks return success or the same error. `own` of
// other ranks is ignored.
Result<void> agree(Communicator& group, const Result<void>& own, Deadline by);

// Collective. Broadcasts rank 0's text. `own` of other ranks is ignored.
Result<std::string> tell(Communicator& group, const std::string& own, Deadline by);

// Message of each rank to rank 0 before a save: whether its content is valid, and which elements it
// has.
struct Claim {
  Result<void> sound;
  std::uint64_t step = 0;
  std::uint32_t tensors_crc32c = 0;  // checksum_of() both lists of tensors
  std::vector<Range> model;
  std::vector<Range> optimizer;
};
Message encode(const Claim& claim);
Result<Claim> decode_claim(const Message& message);

std::uint32_t checksum_of(std::span<const TensorInfo> tensors,
                          std::span<const TensorInfo> state_tensors);

// Rank 0 checks the claims of all ranks. kInvalid if a claim is invalid or a tensor is not covered
// exactly once, kMismatch if ranks differ. The error names the rank or the tensor.
Result<void> check_claims(std::span<const TensorInfo> tensors,
                          std::span<const TensorInfo> state_tensors,
                          const std::vector<Claim>& claims);

// Message of each rank to rank 0 after writing its files, or after failing to.
struct Written {
  Result<void> done;
  std::vector<std::uint32_t> model_crc32c;  // one per piece of the model, in the order of its claim
  std::uint64_t optimizer_bytes = 0;        // size of its optimizer file
  std::uint32_t optimizer_crc32c = 0;
};
Message encode(const Written& written);
// Decodes the messages of all ranks; the error of the first rank that has failed, if one has.
Result<std::vector<Written>> decode_written(const std::vector<Message>& messages);

// Copies the error with `rank` as its peer and at the start of its message.
Error of_rank(Rank rank, const Error& error);

}  // namespace tally::checkpoint
