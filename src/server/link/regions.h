#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/descriptor.h"
#include "base/mutex.h"
#include "tally/error.h"

namespace tally::server {

// Shared memory: a sealed memfd that no process can shrink. Owns descriptor and mapping.
class Mapping final {
 public:
  // Zeroed. kExhausted if there is no memory.
  static Result<std::unique_ptr<Mapping>> create(std::size_t bytes);
  // Maps memory of another process. kCorrupt unless it has that size and is sealed: reading a file
  // that its owner shrinks would kill this process.
  static Result<std::unique_ptr<Mapping>> open(Descriptor memory, std::uint64_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  int descriptor() const { return memory_.descriptor(); }

 private:
  Mapping(Descriptor memory, std::span<std::byte> bytes)
      : memory_(std::move(memory)), bytes_(bytes) {}
  Descriptor memory_;  // closed once an opened one is mapped
  const std::span<std::byte> bytes_;
};

inline constexpr std::size_t kMaxRegions = 4096;
// An address in a region: region number, from 1, in the upper 16 bits, and offset. 0: none.
using Place = std::uint64_t;
constexpr std::uint16_t region_of(Place place) { return static_cast<std::uint16_t>(place >> 48); }
constexpr std::uint64_t offset_of(Place place) { return place & ((std::uint64_t{1} << 48) - 1); }

// The regions of this process; none is ever removed. Threads: safe.
class OwnRegions final {
 public:
  // Allocates zeroed memory, aligned to a cache line; small ones share a region. kExhausted: too
  // many regions, or no memory.
  Result<std::span<std::byte>> allocate(std::size_t bytes);
  // 0 unless all of `memory` lies in one region, aligned to 8; 0 for empty memory.
  Place find(std::span<const std::byte> memory) const;
  // `number` from 1, as in a Place that find() returned.
  const Mapping& region(std::uint16_t number) const;

 private:
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Mapping>> regions_ TALLY_GUARDED_BY(mutex_);
  // Number of the region that begins at an address.
  std::map<const std::byte*, std::uint16_t> begins_ TALLY_GUARDED_BY(mutex_);
  std::span<std::byte> rest_ TALLY_GUARDED_BY(mutex_);  // of the last region, not given out yet
};

// The regions of one peer. Threads: calls must not overlap.
class ShownRegions final {
 public:
  // The next one. kCorrupt as Mapping::open(), or if there are too many.
  Result<void> add(Descriptor memory, std::uint64_t bytes);
  // kCorrupt unless the region is known and has all these bytes, and `place` is aligned to 8.
  Result<std::span<std::byte>> resolve(Place place, std::size_t bytes) const;
  void clear() { regions_.clear(); }

 private:
  std::vector<std::unique_ptr<Mapping>> regions_;
};

}  // namespace tally::server
