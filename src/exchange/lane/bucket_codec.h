#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codec/encoder/encoder.h"
#include "exchange/lane/codec_state.h"
#include "exchange/lane/lane.h"
#include "exchange/memory/parameter_layout.h"
#include "plan/codec_spec.h"

namespace tally::exchange {

// The facts of a step that a bucket's codec needs.
struct LaneStep {
  std::uint64_t step = 0;  // updates before this step
  double weight = 0;       // samples behind `values`; 0: `values` is not read
  std::span<const std::uint8_t>
      used;  // by parameter; without a gradient on any rank it becomes zero and is not sent
  // In: this host's mean of its part of the bucket. Out: the mean of all hosts. With takes_sums(),
  // in: this host's weighted sum, zero without samples; out: the sum of all hosts. float64 for
  // float64 buckets, otherwise float32.
  std::span<std::byte> values;
  // scatter: the sum of this member's part of `values`, which becomes its own.
  std::span<std::byte> own = {};
};

// Carries the means of one bucket over a lane, and keeps the codec's state. For each step all
// members call, in this order, and each when the Delivery before it is finished:
//
//   first()    sends this member's values to the owners
//   second()   makes the means of the runs that this member owns, and sends them to all members
//   third()    takes the means of all owners
//
// In between the lanes may carry other buckets, in the same order on all members. Threads: calls
// must not overlap.
class BucketCodec {
 public:
  virtual ~BucketCodec() = default;
  // Whether `values` holds sums instead of means, in both directions.
  virtual bool takes_sums() const { return false; }
  virtual Result<Delivery> first(Lane& lane, const LaneStep& step) = 0;
  virtual Result<Delivery> second(Lane& lane, const LaneStep& step) = 0;
  virtual Result<void> third(const Lane& lane, const LaneStep& step) = 0;
  // The codec's state; the spans refer to memory of this object.
  virtual std::vector<CodecState> states() { return {}; }
};

struct BucketFacts {
  const BucketLayout& bucket;
  std::size_t number = 0;  // its index among all buckets
  Range local;             // this lane's part of the bucket; powersgd: whole entries
  const std::vector<ParameterInfo>& parameters;
  const plan::CodecSpec& spec;  // its kind is not kAuto
  bool scatters = false;        // each member needs only the sum of its own part
  std::uint64_t seed = 1;
  const std::vector<codec::SenderFacts>& senders;  // by group of parameters
  Sender self;                                     // among the members of the lane
};
std::unique_ptr<BucketCodec> make_bucket_codec(const BucketFacts& facts);

}  // namespace tally::exchange
