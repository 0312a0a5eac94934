#pragma once
#include <memory>
#include <span>
#include <vector>

#include "codec/codec.h"
#include "codec/encoder/encoder.h"
#include "exchange/lane/bucket_codec.h"
#include "exchange/lane/runs.h"
#include "wire/bytes.h"

namespace tally::exchange {

// A bucket whose runs have one owner each. Every member encodes its mean of a run for the owner.
// The owner decodes and averages the means, encodes the average and sends it to all. A gradient so
// passes two encodings, for any number of members. Uncompressed parameters travel along as float32.
//
// A message has the sender's weight (float64). If the weight is above 0, the used runs of the owner
// follow in order, each as the number of bytes (u32) and the encoding. The way back has the same
// format without the weight. All numbers are little-endian. Where all encodings have a fixed size,
// a message is padded with zeros to the maximum, so that members need not exchange sizes.
class SlicedBucket final : public BucketCodec {
 public:
  explicit SlicedBucket(const BucketFacts& facts);

  Result<Delivery> first(Lane& lane, const LaneStep& step) override;
  Result<Delivery> second(Lane& lane, const LaneStep& step) override;
  Result<void> third(const Lane& lane, const LaneStep& step) override;
  std::vector<CodecState> states() override;

 private:
  // The codecs of one parameter's runs, or of one run.
  struct Ways {
    std::size_t parameter = 0;
    plan::CodecSpec spec;
    std::unique_ptr<codec::Codec> there;
    codec::BroadcastCodec back;
  };
  struct Part {
    Run run;
    const Ways* ways = nullptr;
    std::unique_ptr<codec::Encoder> encoder;  // null: not compressed
    std::vector<float> back_residual;         // of the owner, with feedback
    std::uint64_t element = 0;                // the run's first element in the model
  };
  enum class Way { kThere, kBack };

  void add(const BucketFacts& facts, const Run& run);
  const Ways& ways_of(const BucketFacts& facts, const Run& run);
  static const codec::Codec& codec_of(const Part& part, Way way, std::uint64_t step);
  codec::Draw draw_of(const Part& part, Way way, std::uint64_t step) const;
  std::span<float> values_of(const Part& part, const LaneStep& step) const;
  // The used parts that `owner` owns.
  std::vector<Part*> parts_of(int owner, const LaneStep& step);
  bool is_fixed(Way way, const LaneStep& step) const;
  std::size_t most_bytes(Way way, const LaneStep& step, int owner);
  Result<void> make_means(const Lane& lane, const LaneStep& step);
  static Rank who_is_corrupt(const Part& part, const Lane& lane,
                             std::span<const codec::Encoded> senders, const LaneStep& step);
  void encode_mean(Part& part, Lane& lane, const LaneStep& step);

  const std::vector<ParameterInfo>& parameters_;
  const Range local_;
  const std::uint64_t seed_;
  const Sender self_;
  std::vector<std::unique_ptr<Ways>> ways_;
  std::vector<Part> parts_;
  Parcels out_;       // messages of this member
  Parcels received_;  // messages for the runs that this member owns
  Parcels averages_;  // messages of the owners
};

}  // namespace tally::exchange
