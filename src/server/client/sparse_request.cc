#include "server/client/sparse_request.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "server/protocol/message.h"
#include "server/storage/storage.h"
#include "server/storage/table_spec.h"

namespace tally::server {
namespace {

constexpr std::size_t kStagingAlignment = 64;
constexpr std::size_t kSmallest = 4096;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

}  // namespace

Result<std::span<std::byte>> StagingPool::take(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes, kSmallest));
  const MutexLock lock(mutex_);
  std::vector<std::span<std::byte>>& free = free_[size];
  if (free.empty()) return make(size);
  const std::span<std::byte> memory = free.back();
  free.pop_back();
  return memory;
}

void StagingPool::give_back(std::span<std::byte> memory) {
  TALLY_CHECK(std::has_single_bit(memory.size()));
  const MutexLock lock(mutex_);
  free_[memory.size()].push_back(memory);
}

Result<std::span<std::byte>> StagingPool::make(std::size_t bytes) {
  if (allocate_) {
    TALLY_TRY(const std::span<std::byte> memory, allocate_(bytes + kStagingAlignment));
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    return memory.subspan((kStagingAlignment - address % kStagingAlignment) % kStagingAlignment,
                          bytes);
  }
  heap_.push_back(std::make_unique<std::byte[]>(bytes + kStagingAlignment));
  std::byte* begin = heap_.back().get();
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  return std::span(begin + (kStagingAlignment - address % kStagingAlignment) % kStagingAlignment,
                   bytes);
}

KeyGroups group_keys(std::span<const std::uint64_t> keys, std::uint32_t parts) {
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

SparseRequest::SparseRequest(const Shape& shape, std::span<const std::uint64_t> keys)
    : shape_(shape), groups_(group_keys(keys, shape.parts)) {
  for (std::uint32_t part = 0; part < shape_.parts; ++part) {
    payload_at_.push_back(bytes_);
    bytes_ += aligned(payload_bytes(part));
    reply_at_.push_back(bytes_);
    bytes_ += aligned(reply_bytes(part));
    largest_message_ = std::max({largest_message_, payload_bytes(part), reply_bytes(part)});
  }
}

std::size_t SparseRequest::payload_bytes(std::uint32_t part) const {
  const std::size_t of_rows = shape_.pushes ? std::size_t{4} * shape_.dimension : 0;
  return kKeyCountBytes + count(part) * (sizeof(std::uint64_t) + of_rows);
}

std::size_t SparseRequest::reply_bytes(std::uint32_t part) const {
  return shape_.pulls ? count(part) * std::size_t{4} * shape_.dimension : 0;
}

std::span<const std::byte> SparseRequest::payload(std::uint32_t part) const {
  return memory_.subspan(payload_at_[part], payload_bytes(part));
}

std::span<std::byte> SparseRequest::reply(std::uint32_t part) const {
  if (const auto moved = moved_.find(part); moved != moved_.end())
    return {moved->second.get(), reply_bytes(part)};
  return memory_.subspan(reply_at_[part], reply_bytes(part));
}

void SparseRequest::move_reply(std::uint32_t part) {
  moved_[part] = std::make_unique<std::byte[]>(reply_bytes(part));
}

void SparseRequest::lay_out(std::span<const std::uint64_t> keys, std::span<const float> rows,
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

void SparseRequest::scatter(std::span<float> rows) const {
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

}  // namespace tally::server
