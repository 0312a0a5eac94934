#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "server/protocol/message.h"
#include "server/storage/table_spec.h"
#include "tally/error.h"

namespace tally::server {

// Allocates zeroed memory that lives as long as the client.
using Allocate = std::function<Result<std::span<std::byte>>(std::size_t bytes)>;

inline constexpr std::size_t kStagingAlignment = 64;

// A pool of memory for messages. Sizes are rounded up to powers of two, so at most half is unused.
// Threads: safe.
class StagingPool {
 public:
  // Without `allocate`, from the heap.
  explicit StagingPool(Allocate allocate) : allocate_(std::move(allocate)) {}
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // Aligned to 64 bytes. Fails as `allocate` does.
  Result<std::span<std::byte>> take(std::size_t bytes) {
    const std::size_t size = std::bit_ceil(std::max(bytes, std::size_t{4096}));
    const MutexLock lock(mutex_);
    std::vector<std::span<std::byte>>& free = free_[size];
    if (free.empty()) return make(size);
    const std::span<std::byte> memory = free.back();
    free.pop_back();
    return memory;
  }

  // `memory` as take() returned it.
  void give_back(std::span<std::byte> memory) {
    TALLY_CHECK(std::has_single_bit(memory.size()));
    const MutexLock lock(mutex_);
    free_[memory.size()].push_back(memory);
  }

 private:
  Result<std::span<std::byte>> make(std::size_t bytes) TALLY_REQUIRES(mutex_) {
    std::span<std::byte> memory;
    if (allocate_) {
      TALLY_TRY(memory, allocate_(bytes + kStagingAlignment));
    } else {
      heap_.push_back(std::make_unique<std::byte[]>(bytes + kStagingAlignment));
      memory = {heap_.back().get(), bytes + kStagingAlignment};
    }
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    return memory.subspan((kStagingAlignment - address % kStagingAlignment) % kStagingAlignment,
                          bytes);
  }

  const Allocate allocate_;
  Mutex mutex_;
  std::map<std::size_t, std::vector<std::span<std::byte>>> free_ TALLY_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<std::byte[]>> heap_ TALLY_GUARDED_BY(mutex_);
};

// A key that occurs more than once. Keys that rise, such as those of a SparseEmbedding, take one
// pass; others take a hash table.
inline std::optional<std::uint64_t> repeated_key(std::span<const std::uint64_t> keys) {
  const auto falls = std::adjacent_find(keys.begin(), keys.end(), std::greater_equal<>());
  if (falls == keys.end()) return std::nullopt;
  constexpr std::uint32_t kFree = ~std::uint32_t{0};
  const std::size_t mask = std::bit_ceil(2 * keys.size()) - 1;
  std::vector<std::uint32_t> index_of(mask + 1, kFree);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::size_t slot = hash_of_key(keys[i]) & mask;
    for (; index_of[slot] != kFree; slot = (slot + 1) & mask)
      if (keys[index_of[slot]] == keys[i]) return keys[i];
    index_of[slot] = static_cast<std::uint32_t>(i);
  }
  return std::nullopt;
}

// Keys grouped by part, in the order of the caller within each.
struct KeyGroups {
  std::vector<std::uint32_t> begin;  // of each part, and the end: parts + 1 values
  std::vector<std::uint32_t> order;  // indices of the caller's keys
};
// A counting sort: two passes over the keys. Fewer than 2^32 keys, at most 65536 parts.
inline KeyGroups group_keys(std::span<const std::uint64_t> keys, std::uint32_t parts) {
  KeyGroups groups{.begin = std::vector<std::uint32_t>(parts + 1),
                   .order = std::vector<std::uint32_t>(keys.size())};
  std::vector<std::uint16_t> part_of(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint32_t part = part_of_hash(hash_of_key(keys[i]), parts);
    part_of[i] = static_cast<std::uint16_t>(part);
    ++groups.begin[part + 1];
  }

  for (std::uint32_t part = 0; part < parts; ++part) groups.begin[part + 1] += groups.begin[part];
  std::vector<std::uint32_t> next(groups.begin.begin(), groups.begin.end() - 1);
  for (std::size_t i = 0; i < keys.size(); ++i)
    groups.order[next[part_of[i]]++] = static_cast<std::uint32_t>(i);
  return groups;
}

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

  SparseRequest(const Shape& shape, std::span<const std::uint64_t> keys)
      : shape_(shape), groups_(group_keys(keys, shape.parts)) {
    for (std::uint32_t part = 0; part < shape_.parts; ++part) {
      payload_at_.push_back(bytes_);
      bytes_ += aligned(payload_bytes(part));
      reply_at_.push_back(bytes_);
      bytes_ += aligned(reply_bytes(part));
      largest_message_ = std::max({largest_message_, payload_bytes(part), reply_bytes(part)});
    }
  }

  // Size of the memory for lay_out().
  std::size_t bytes() const { return bytes_; }
  // Size of the longest payload or answer.
  std::size_t largest_message() const { return largest_message_; }
  // Writes the payloads into `memory`, which must stay in place. `rows` (pushes) are in the order
  // of `keys`.
  void lay_out(std::span<const std::uint64_t> keys, std::span<const float> rows,
               std::span<std::byte> memory) {
    TALLY_CHECK(memory.size() >= bytes_);
    memory_ = memory;
    const std::size_t row_bytes = std::size_t{4} * shape_.dimension;
    for (std::uint32_t part = 0; part < shape_.parts; ++part) {
      std::byte* at = memory.data() + payload_at_[part];
      const std::uint32_t header[2] = {count(part), 0};
      std::memcpy(at, header, sizeof(header));
      at += kKeyCountBytes;
      const std::uint32_t begin = groups_.begin[part];
      const std::uint32_t end = groups_.begin[part + 1];
      for (std::uint32_t i = begin; i < end; ++i, at += sizeof(std::uint64_t))
        std::memcpy(at, &keys[groups_.order[i]], sizeof(std::uint64_t));
      if (!shape_.pushes) continue;
      if (shape_.dimension == 1) {
        for (std::uint32_t i = begin; i < end; ++i, at += sizeof(float))
          std::memcpy(at, &rows[groups_.order[i]], sizeof(float));
        continue;
      }
      for (std::uint32_t i = begin; i < end; ++i, at += row_bytes)
        std::memcpy(at, &rows[std::size_t{groups_.order[i]} * shape_.dimension], row_bytes);
    }
  }

  std::span<const std::byte> payload(std::uint32_t part) const {
    return memory_.subspan(payload_at_[part], payload_bytes(part));
  }

  std::span<std::byte> reply(std::uint32_t part) const {
    if (const auto moved = moved_.find(part); moved != moved_.end())
      return {moved->second.get(), reply_bytes(part)};
    return memory_.subspan(reply_at_[part], reply_bytes(part));
  }

  // Moves the reply of a part to new memory.
  void move_reply(std::uint32_t part) {
    moved_[part] = std::make_unique<std::byte[]>(reply_bytes(part));
  }

  // Writes the rows of the answers in the order of the caller's keys.
  void scatter(std::span<float> rows) const {
    TALLY_CHECK(rows.size() == groups_.order.size() * shape_.dimension);
    const std::size_t row_bytes = std::size_t{4} * shape_.dimension;
    for (std::uint32_t part = 0; part < shape_.parts; ++part) {
      const std::byte* at = reply(part).data();
      const std::uint32_t end = groups_.begin[part + 1];
      if (shape_.dimension == 1) {
        for (std::uint32_t i = groups_.begin[part]; i < end; ++i, at += sizeof(float))
          std::memcpy(&rows[groups_.order[i]], at, sizeof(float));
        continue;
      }
      for (std::uint32_t i = groups_.begin[part]; i < end; ++i, at += row_bytes)
        std::memcpy(&rows[std::size_t{groups_.order[i]} * shape_.dimension], at, row_bytes);
    }
  }

  // The argument of scatter(), for ClientNode::take().
  std::span<float> target;

 private:
  static std::size_t aligned(std::size_t bytes) {
    return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
  }

  std::uint32_t count(std::uint32_t part) const {
    return groups_.begin[part + 1] - groups_.begin[part];
  }

  std::size_t payload_bytes(std::uint32_t part) const {
    const std::size_t of_rows = shape_.pushes ? std::size_t{4} * shape_.dimension : 0;
    return kKeyCountBytes + count(part) * (sizeof(std::uint64_t) + of_rows);
  }

  std::size_t reply_bytes(std::uint32_t part) const {
    return shape_.pulls ? count(part) * std::size_t{4} * shape_.dimension : 0;
  }

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
