#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codec/encoder/encoder.h"
#include "plan/codec_spec.h"
#include "train/codec_state.h"
#include "train/lane.h"
#include "train/parameter_layout.h"

namespace tally::train {

// What a bucket's codec needs to know about a step.
struct LaneStep {
  std::uint64_t step = 0;  // updates before it
  double weight = 0;       // samples behind `values`; 0: they are not read
  std::span<const std::uint8_t>
      used;  // by parameter; what nobody has a gradient for becomes zero and is not sent
  // This host's mean of its part of the bucket becomes that of all hosts; with takes_sums() its sum
  // by weight becomes that of all, and without samples it is zero. float64 for such buckets, else
  // float32.
  std::span<std::byte> values;
};

// How one bucket's means travel over a lane, and what is remembered of them. All members call
// first() and second() of the same steps; in between the lanes may carry other buckets' ones, each
// in their order. Threads: calls of one object must not overlap; first() and second() of different
// buckets may.
class BucketCodec {
 public:
  virtual ~BucketCodec() = default;
  // Whether it is given sums instead of means, and leaves sums.
  virtual bool takes_sums() const { return false; }
  // From the senders to where means are made.
  virtual Result<void> first(Lane& lane, const LaneStep& step) = 0;
  // And to all.
  virtual Result<void> second(Lane& lane, const LaneStep& step) = 0;
  // Borrowed.
  virtual std::vector<CodecState> states() = 0;
};

struct BucketFacts {
  const BucketLayout& bucket;
  std::size_t number = 0;  // among all buckets
  Range local;             // what this lane has of it; powersgd: whole entries
  const std::vector<ParameterInfo>& parameters;
  const plan::CodecSpec& spec;  // not auto
  std::uint64_t seed = 1;
  const std::vector<codec::SenderFacts>& senders;  // by group of parameters
  Sender self;                                     // of the lane's members
};
std::unique_ptr<BucketCodec> make_bucket_codec(const BucketFacts& facts);

}  // namespace tally::train
