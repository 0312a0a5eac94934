#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "codec/choose.h"
#include "plan/codec_spec.h"
#include "train/parameter_layout.h"

namespace tally::train {

// A codec that is tried on a lane's part of a bucket. None that auto cannot choose.
struct BucketTrial {
  const plan::CodecSpec& spec;
  const std::vector<ParameterInfo>& parameters;
  const BucketLayout& bucket;
  Range local;    // what the lane has of it
  int hosts = 2;  // on the lane
  std::uint64_t seed = 1;
};

// What the codec costs each host for that part, by the time for the longest run of it, powersgd:
// for rows of its largest matrix. `gradient` is the part's. None where nothing can be said: nothing
// of the whole bucket is compressed, that run has nothing but zeros, or powersgd would have to do
// with a part of a tensor.
std::optional<codec::Candidate> try_on(const BucketTrial& trial, std::span<const float> gradient,
                                       const Clock& clock);

}  // namespace tally::train
