#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exchange/device/encoded_buckets.h"

namespace tally::exchange {

// Codecs whose encodings are gathered. Each rank encodes its mean of a bucket and sends the
// encoding to all ranks. Every rank decodes all encodings and averages them, and then encodes and
// decodes the average as the owner of a run does in a group (SlicedBucket): the residual of that
// way back is the same on all ranks. The averages have the bits of a group in which each rank is a
// sender. The price of this way is that a rank receives the encodings of all others, instead of a
// part of each and one average; it has half the steps.
class DeviceEncoding final : public EncodedBuckets {
 public:
  static Result<std::unique_ptr<DeviceEncoding>> make(const Options& options);

  Result<void> connect(Communicator& world, const Ways& ways, Deadline by) override;
  void disconnect() override { gather_.reset(); }
  bool encodes(std::size_t bucket, std::uint64_t /*updates*/) const override {
    return !buckets_[bucket].parts.empty();
  }
  std::byte* gradient(std::size_t bucket) const override { return buckets_[bucket].gradient.data; }
  // Waits for the device where encodings have no fixed size.
  Result<void> start(std::size_t bucket, const Step& step, double samples) override;
  // kCorrupt if a rank has sent bytes that are no encoding.
  Result<void> finish(const Step& step, std::span<const double> weights, Deadline by) override;
  // The residuals take a step along when it is encoded and averaged.
  Result<void> catch_up(const Step& /*step*/) override { return {}; }
  void end_step() override {}
  void abort(const Error& why) override {
    if (gather_) gather_->abort(why);
  }
  Result<HostState> read(const Sender& self) const override;
  Result<void> write(const HostState& state) override;
  Result<void> spread_shared(Communicator& world, Rank root, Deadline by) override;
  std::size_t bytes() const override;

 private:
  // A run of values that is encoded at once.
  struct Part {
    std::size_t parameter = 0;
    Range range;                   // in the bucket
    bool is_compressed = false;    // otherwise it travels as float32
    DeviceCodec* codec = nullptr;  // of compressed parts
    DeviceCodec* back = nullptr;   // null: the average is exact
    std::size_t number = 0;        // among those of all buckets
    std::size_t count() const { return range.count(); }
  };
  struct Bucket {
    std::vector<Part> parts;
    std::size_t array = 0;  // of gather_
    std::size_t first_piece = 0;
    DeviceMemory gradient;
    DeviceMemory momentum;       // early momentum
    DeviceMemory residual;       // with feedback
    DeviceMemory back_residual;  // with feedback on the way back
  };
  // One array of state of a bucket.
  struct StateArray {
    const char* name;
    const DeviceMemory& memory;
  };
  // Codecs by columns and first column of their runs.
  using Codecs = std::map<std::pair<std::size_t, std::size_t>, std::unique_ptr<DeviceCodec>>;

  explicit DeviceEncoding(const Options& options);

  Result<void> add_parts();
  Result<void> allocate();
  std::size_t run_elements(const ParameterInfo& info) const;
  bool is_plain(const Part& part, std::uint64_t step) const;
  DeviceCodec& codec_of(const Part& part, std::uint64_t step) const;
  bool is_fixed(std::uint64_t step) const;
  std::size_t capacity_of(const Bucket& bucket) const;

  Result<const float*> with_momentum(std::size_t bucket, const Step& step);
  Result<void> encode(const Part& part, const Bucket& bucket, const float* values,
                      std::uint64_t step, std::byte* out);
  Result<void> learn_sizes(Deadline by);
  Result<void> average(const Bucket& bucket, const Step& step, std::span<const float> shares);
  Result<void> send_back(const Part& part, const Bucket& bucket, std::uint64_t step);
  Result<void> check(Deadline by);

  std::vector<StateArray> arrays_of(const Bucket& bucket) const;
  HostState plan_state(const Sender& self, std::vector<const float*>& places) const;

  Device& device_;
  const DeviceModel& model_;
  const GroupUpdate::Options& update_;
  const plan::CodecSpec& spec_;
  const bool has_back_feedback_;
  std::vector<Bucket> buckets_;
  std::size_t part_count_ = 0;
  DeviceMemory damaged_;  // a word, which becomes 1 where decoded bytes are no encoding
  Codecs codecs_;
  Codecs back_codecs_;
  std::unique_ptr<DeviceCodec> plain_;
  DeviceMemory scratch_;      // one encoding on its way back
  DeviceMemory ahead_;        // early momentum: values that the loops of an update write
  DeviceMemory piece_table_;  // early momentum: of all buckets
  std::vector<DevicePiece> pieces_;
  std::vector<std::int64_t> sizes_;      // by part: bytes of this rank's encoding
  std::vector<std::int64_t> all_sizes_;  // by rank, by part
  Communicator* world_ = nullptr;
  std::unique_ptr<DeviceGather> gather_;
};

}  // namespace tally::exchange
