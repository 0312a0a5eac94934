#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "tally/error.h"

namespace tally::server {

// Allocates zeroed memory that lives as long as the client.
using Allocate = std::function<Result<std::span<std::byte>>(std::size_t bytes)>;

// A pool of memory for messages. Sizes are rounded up to powers of two, so at most half is unused.
// Threads: safe.
class StagingPool {
 public:
  // Without `allocate`, from the heap.
  explicit StagingPool(Allocate allocate) : allocate_(std::move(allocate)) {}
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // Aligned to 64 bytes. Fails as `allocate` does.
  Result<std::span<std::byte>> take(std::size_t bytes);
  // `memory` as take() returned it.
  void give_back(std::span<std::byte> memory);

 private:
  Result<std::span<std::byte>> make(std::size_t bytes) TALLY_REQUIRES(mutex_);

  const Allocate allocate_;
  Mutex mutex_;
  std::map<std::size_t, std::vector<std::span<std::byte>>> free_ TALLY_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<std::byte[]>> heap_ TALLY_GUARDED_BY(mutex_);
};

// Keys grouped by part, in the order of the caller within each.
struct KeyGroups {
  std::vector<std::uint32_t> begin;  // of each part, and the end: parts + 1 values
  std::vector<std::uint32_t> order;  // indices of the caller's keys
};
// A counting sort: two passes over the keys. Fewer than 2^32 keys, at most 65536 parts.
KeyGroups group_keys(std::span<const std::uint64_t> keys, std::uint32_t parts);

// The memory of a request for rows of a sparse table. For each part: the payload (u32 count, u32
// zero, the keys, and for pushes their rows), then room for the rows of the answer, both aligned to
// 64 bytes.
class SparseRequest {
 public:
  struct Shape {
    std::uint32_t parts = 1;
    std::uint32_t dimension = 1;
    bool pushes = false;
    bool pulls = false;
  };

  SparseRequest(const Shape& shape, std::span<const std::uint64_t> keys);

  // Size of the memory for lay_out().
  std::size_t bytes() const { return bytes_; }
  // Size of the longest payload or answer.
  std::size_t largest_message() const { return largest_message_; }
  // Writes the payloads into `memory`, which must stay in place. `rows` (pushes) are in the order
  // of `keys`.
  void lay_out(std::span<const std::uint64_t> keys, std::span<const float> rows,
               std::span<std::byte> memory);

  std::span<const std::byte> payload(std::uint32_t part) const;
  std::span<std::byte> reply(std::uint32_t part) const;
  // Moves the reply of a part to new memory.
  void move_reply(std::uint32_t part);

  // Writes the rows of the answers in the order of the caller's keys.
  void scatter(std::span<float> rows) const;
  // The argument of scatter(), for ClientNode::take().
  std::span<float> target;

 private:
  std::uint32_t count(std::uint32_t part) const {
    return groups_.begin[part + 1] - groups_.begin[part];
  }
  std::size_t payload_bytes(std::uint32_t part) const;
  std::size_t reply_bytes(std::uint32_t part) const;

  Shape shape_;
  KeyGroups groups_;
  std::vector<std::size_t> payload_at_;
  std::vector<std::size_t> reply_at_;
  std::size_t bytes_ = 0;
  std::size_t largest_message_ = 0;
  std::span<std::byte> memory_;
  std::map<std::uint32_t, std::unique_ptr<std::byte[]>> moved_;  // by part
};

}  // namespace tally::server
