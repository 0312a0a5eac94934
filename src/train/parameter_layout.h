#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tally/types.h"

namespace tally::train {

// One tensor that is trained.
struct ParameterInfo {
  std::string name;
  DataType type = DataType::kFloat32;
  std::vector<std::int64_t> shape;
  std::size_t group = 0;  // whose optimizer settings it has

  std::size_t count() const;
};

// Elements [begin, end) of a bucket.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t count() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Ranges of buckets are cut between ranks at multiples of this many elements, so that sums over one
// block are made by one rank, whatever the number of ranks.
inline constexpr std::size_t kBlock = 4096;

struct BucketLayout {
  struct Entry {
    std::size_t parameter = 0;
    Range range;  // in this bucket
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  DataType type = DataType::kFloat32;
  std::size_t count = 0;       // elements, the gaps between entries included
  std::size_t offset = 0;      // bytes from the beginning of all buckets
  std::vector<Entry> entries;  // by range

  std::size_t bytes() const { return count * size_of(type); }
  std::size_t blocks() const { return (count + kBlock - 1) / kBlock; }
  friend bool operator==(const BucketLayout&, const BucketLayout&) = default;
};

struct Layout {
  struct Place {
    std::size_t bucket = 0;
    std::size_t begin = 0;  // element of the bucket
  };
  std::vector<BucketLayout> buckets;
  std::vector<Place> place_of;  // by parameter
  std::size_t bytes = 0;        // of all buckets
};

// Parameters in `order`, the same type side by side, closed into a bucket once that has
// `bucket_bytes`. Parameters begin at cache lines. `order` has every parameter once.
Layout make_layout(const std::vector<ParameterInfo>& parameters, std::span<const std::size_t> order,
                   std::size_t bucket_bytes);

// The part of `whole` that falls to one of `parts`, in whole blocks of the bucket, as even as these
// allow. `first` says which part gets the first blocks, so that many small buckets are shared by
// all.
struct Share {
  int parts = 1;
  int index = 0;
  std::size_t first = 0;
};
Range part_of(Range whole, const Share& share);
// The same in whole entries of the bucket, as even as these allow.
Range entries_of(const BucketLayout& bucket, const Share& share);

}  // namespace tally::train
