#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exchange/device/device_low_rank.h"
#include "exchange/device/encoded_buckets.h"

namespace tally::exchange {

// powersgd on devices, with the arithmetic of LowRankBucket where each rank is a sender: two
// DeviceSums, of the left factors and of the right ones. The parameters of a bucket that are not
// compressed are summed with its left factors. Buckets without a matrix, and during the warm-up all
// of them, are not encoded.
class DeviceFactors final : public EncodedBuckets {
 public:
  static Result<std::unique_ptr<DeviceFactors>> make(const Options& options);

  Result<void> connect(Communicator& world, const Ways& ways, Deadline by) override;
  void disconnect() override { sums_.reset(); }
  bool encodes(std::size_t bucket, std::uint64_t updates) const override;
  std::byte* gradient(std::size_t bucket) const override { return buckets_[bucket].gradient.data; }
  Result<void> start(std::size_t bucket, const Step& step, double samples) override;
  Result<void> finish(const Step& step, std::span<const double> weights, Deadline by) override;
  Result<void> catch_up(const Step& step) override;
  void end_step() override;
  void abort(const Error& why) override {
    if (sums_) sums_->abort(why);
  }
  Result<HostState> read(const Sender& self) const override;
  Result<void> write(const HostState& state) override;
  Result<void> spread_shared(Communicator& world, Rank root, Deadline by) override;
  std::size_t bytes() const override;

 private:
  // One parameter.
  struct Part {
    std::size_t parameter = 0;
    Range range;                            // in the bucket
    std::unique_ptr<DeviceLowRank> matrix;  // null: not compressed
    Range left;                             // in the bucket's left array
    Range right;                            // in the bucket's right array
  };
  struct Bucket {
    std::vector<Part> parts;   // empty: never encoded
    std::size_t array = 0;     // of sums_: the left array; the right one follows
    DeviceMemory gradient;     // float32
    DeviceMemory left, right;  // the sums of all ranks, where this rank may change them
    DeviceMemory left_cells;   // of the left array
    std::size_t left_cell_count = 0;
  };
  // Factors of a step that turn means into sums, and sums into means.
  struct Weights {
    float own = 1;
    float share = 1;
  };

  explicit DeviceFactors(const Options& options);

  Result<void> add_bucket(std::size_t b);
  float weight_of(double samples) const;
  Result<void> gather(DeviceBucket to, float factor);
  Result<void> copy_sum(std::size_t array, const DeviceMemory& to);
  Result<void> correlate(const Bucket& bucket, const Weights& weights);
  Result<void> rebuild(std::size_t b, const Step& step, float share);

  Device& device_;
  const DeviceModel& model_;
  const GroupUpdate::Options& update_;
  const plan::CodecSpec& spec_;
  std::vector<Bucket> buckets_;
  DeviceMemory piece_table_;  // of one bucket
  std::vector<DevicePiece> pieces_;
  Communicator* world_ = nullptr;
  std::unique_ptr<DeviceSum> sums_;  // null: no bucket is ever encoded
  // Set while this rank has both sums of a step and has not rebuilt its means.
  std::optional<float> share_;
};

}  // namespace tally::exchange
