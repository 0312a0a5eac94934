#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "train/parameter_layout.h"

namespace tally::train {

// Elements of one parameter that are encoded together, and the member of the lane that makes their
// mean.
struct Run {
  std::size_t parameter = 0;
  std::size_t first = 0;  // element of the parameter
  Range range;            // in the bucket
  int owner = 0;

  std::size_t count() const { return range.count(); }
};

// What `local` has of a bucket, in its order, cut at those elements of each parameter where runs
// end: the multiples of codec::kRunElements. Owners have about equally many elements; the same
// arguments give the same owners everywhere. `bucket_number` says who is first, so that many small
// buckets are shared by all.
std::vector<Run> runs_of(const BucketLayout& bucket, Range local, int owners,
                         std::size_t bucket_number);

}  // namespace tally::train
