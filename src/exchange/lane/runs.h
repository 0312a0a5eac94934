#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "exchange/memory/parameter_layout.h"

namespace tally::exchange {

// Elements of one parameter that are encoded together. The lane member `owner` makes their mean.
struct Run {
  std::size_t parameter = 0;
  std::size_t first = 0;  // element of the parameter
  Range range;            // in the bucket
  int owner = 0;

  std::size_t count() const { return range.count(); }
};

// Cuts the range `local` of a bucket into runs, in bucket order. Runs end at the multiples of
// codec::kRunElements of each parameter. Owners get about equally many elements; the same arguments
// give the same owners on all ranks. `bucket_number` rotates the first owner, so that many small
// buckets are spread over all owners.
std::vector<Run> runs_of(const BucketLayout& bucket, Range local, int owners,
                         std::size_t bucket_number);

}  // namespace tally::exchange
