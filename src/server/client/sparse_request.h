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

// Memory that lives as long as the client, zero at first.
using Allocate = std::function<Result<std::span<std::byte>>(std::size_t bytes)>;

// Memory for messages, used again and again: sizes are rounded up to powers of two, so that at most
// half of what was ever needed at once is wasted. Threads: safe.
class StagingPool {
 public:
  // Without `allocate`: from the heap.
  explicit StagingPool(Allocate allocate) : allocate_(std::move(allocate)) {}
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // Aligned to 64 bytes. What allocate() says where there is no more.
  Result<std::span<std::byte>> take(std::size_t bytes);
  // What take() gave, as it gave it.
  void give_back(std::span<std::byte> memory);

 private:
  Result<std::span<std::byte>> make(std::size_t bytes) TALLY_REQUIRES(mutex_);

  const Allocate allocate_;
  Mutex mutex_;
  std::map<std::size_t, std::vector<std::span<std::byte>>> free_ TALLY_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<std::byte[]>> heap_ TALLY_GUARDED_BY(mutex_);
};

// Keys sorted by the part that they lie on, in the order of the caller within each.
struct KeyGroups {
  std::vector<std::uint32_t> begin;  // of each part, and the end: parts + 1
  std::vector<std::uint32_t> order;  // which of the caller's keys stands here
};
// A counting sort: two passes over the keys. Fewer than 2^32 keys, at most 65536 parts.
KeyGroups group_keys(std::span<const std::uint64_t> keys, std::uint32_t parts);
KeyGroups group_keys_reference(std::span<const std::uint64_t> keys, std::uint32_t parts);

// A request for rows of a sparse table as it lies in memory, part by part: the payload (u32 count,
// u32 zero, the keys, and for pushes their rows), then room for the rows of the answer; each begins
// at a multiple of 64 bytes.
class SparseRequest {
 public:
  struct Shape {
    std::uint32_t parts = 1;
    std::uint32_t dimension = 1;
    bool pushes = false;
    bool pulls = false;
  };

  SparseRequest(const Shape& shape, std::span<const std::uint64_t> keys);

  // Bytes that lay_out() needs.
  std::size_t bytes() const { return bytes_; }
  // The longest payload or answer of a part.
  std::size_t largest_message() const { return largest_message_; }
  // Writes the payloads into `memory`, which stays in place from now on. `rows` of pushes: by the
  // caller's order of keys.
  void lay_out(std::span<const std::uint64_t> keys, std::span<const float> rows,
               std::span<std::byte> memory);

  std::span<const std::byte> payload(std::uint32_t part) const;
  std::span<std::byte> reply(std::uint32_t part) const;
  // The rows of this part are awaited elsewhere from now on, in memory of its own.
  void move_reply(std::uint32_t part);

  // Puts the rows of the answers where the caller's keys are.
  void scatter(std::span<float> rows) const;
  // Where scatter() shall write; kept for whoever takes the answer.
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
