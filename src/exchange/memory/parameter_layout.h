#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tally/types.h"

namespace tally::exchange {

// A tensor that is trained.
struct ParameterInfo {
  std::string name;
  DataType type = DataType::kFloat32;
  std::vector<std::int64_t> shape;
  std::size_t group = 0;  // index of its optimizer settings

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

// Buckets are cut between ranks at multiples of this many elements. One rank then sums a whole
// block, for any number of ranks.
inline constexpr std::size_t kBlock = 4096;

struct BucketLayout {
  struct Entry {
    std::size_t parameter = 0;
    Range range;  // in this bucket
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  DataType type = DataType::kFloat32;
  std::size_t count = 0;       // elements, including the gaps between entries
  std::size_t offset = 0;      // bytes from the start of the first bucket
  std::vector<Entry> entries;  // sorted by range

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

// Places parameters in `order` into buckets of one type each. A bucket is closed once it has
// `bucket_bytes`. Parameters begin at cache lines. `order` contains every parameter once.
Layout make_layout(const std::vector<ParameterInfo>& parameters, std::span<const std::size_t> order,
                   std::size_t bucket_bytes);

// The range of `whole` that belongs to part `index` of `parts`, in whole blocks of the bucket and
// as even as these allow. `first` is the part that gets the first blocks: callers vary it so that
// many small buckets are spread over all parts.
struct Share {
  int parts = 1;
  int index = 0;
  std::size_t first = 0;
};
Range part_of(Range whole, const Share& share);
// The same in whole entries of the bucket, as even as these allow.
Range entries_of(const BucketLayout& bucket, const Share& share);

}  // namespace tally::exchange
