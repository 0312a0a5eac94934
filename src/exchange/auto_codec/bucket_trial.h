#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "codec/choose.h"
#include "exchange/memory/parameter_layout.h"
#include "plan/codec_spec.h"

namespace tally::exchange {

// A trial of a codec on a lane's part of a bucket. The codec is one that codec=auto can choose.
struct BucketTrial {
  const plan::CodecSpec& spec;
  const std::vector<ParameterInfo>& parameters;
  const BucketLayout& bucket;
  Range local;    // the lane's part of the bucket
  int hosts = 2;  // on the lane
  std::uint64_t seed = 1;
};

// The cost of the codec per host for the lane's part, extrapolated from the time for its longest
// run; for powersgd, from rows of its largest matrix. `gradient` is the gradient of the part.
// Returns nullopt if there is no estimate: the codec compresses nothing of the whole bucket, the
// run is all zeros, or powersgd would get a part of a tensor.
std::optional<codec::Candidate> try_on(const BucketTrial& trial, std::span<const float> gradient,
                                       const Clock& clock);

}  // namespace tally::exchange
