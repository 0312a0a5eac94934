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

// Memory that is shown to neighbours: one anonymous file each, which nobody can shrink once it is
// sealed. Owns descriptor and mapping.
class Mapping final {
 public:
  // Zeroed. kExhausted if the system has not as much.
  static Result<std::unique_ptr<Mapping>> create(std::size_t bytes);
  // What another process created. kCorrupt unless it is of that size and sealed: reading a file
  // that its owner shrinks would end this process.
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
// Where a message's payload lies: region number in the upper 16 bits, from 1, and offset. 0: in no
// region.
using Place = std::uint64_t;
constexpr std::uint16_t region_of(Place place) { return static_cast<std::uint16_t>(place >> 48); }
constexpr std::uint64_t offset_of(Place place) { return place & ((std::uint64_t{1} << 48) - 1); }

// The regions of this process, which only grow in number. Threads: safe.
class OwnRegions final {
 public:
  // `bytes` of a region, zeroed, aligned to a cache line. Small ones share a region. kExhausted:
  // too many, or no memory.
  Result<std::span<std::byte>> allocate(std::size_t bytes);
  // 0 unless all of `memory` lies in one region, aligned to 8. Empty memory lies nowhere.
  Place find(std::span<const std::byte> memory) const;
  struct Region {
    int descriptor = -1;
    std::uint64_t bytes = 0;
  };
  // `number` from 1, as in a Place that find() returned.
  Region region(std::uint16_t number) const;

 private:
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Mapping>> regions_ TALLY_GUARDED_BY(mutex_);
  // Number of the region that begins at an address.
  std::map<const std::byte*, std::uint16_t> begins_ TALLY_GUARDED_BY(mutex_);
  std::span<std::byte> rest_ TALLY_GUARDED_BY(mutex_);  // of the last region, not given out yet
};

// The regions that one peer has shown. Threads: calls must not overlap.
class ShownRegions final {
 public:
  // The next one. kCorrupt as Mapping::open(), or if there are too many.
  Result<void> add(Descriptor memory, std::uint64_t bytes);
  // kCorrupt unless that region was shown, has all these bytes, and `place` is aligned to 8.
  Result<std::span<std::byte>> resolve(Place place, std::size_t bytes) const;
  void clear() { regions_.clear(); }

 private:
  std::vector<std::unique_ptr<Mapping>> regions_;
};

}  // namespace tally::server
