#include "apps/train/batches.h"

#include <numeric>

#include <gtest/gtest.h>

namespace tally::app {
namespace {

// Samples of 2x3x3 numbers with one label each.
const data::SampleShape kShape{.input = {2, 3, 3},
                               .input_type = DataType::kFloat32,
                               .target = {},
                               .target_type = DataType::kInt64};

// A batch of which every value is its own.
class Samples {
 public:
  Samples(std::uint64_t count, float first) : inputs_(18 * count), targets_(count) {
    std::iota(inputs_.begin(), inputs_.end(), first);
    std::iota(targets_.begin(), targets_.end(), static_cast<std::int64_t>(first));
  }
  train::Batch batch() {
    return {.samples = targets_.size(),
            .input = std::as_writable_bytes(std::span(inputs_)),
            .target = std::as_writable_bytes(std::span(targets_))};
  }
  bool are(const TensorBatch& tensors) {
    const auto count = static_cast<std::int64_t>(targets_.size());
    const at::Tensor input = torch::from_blob(inputs_.data(), {count, 2, 3, 3}, at::kFloat);
    const at::Tensor target = torch::from_blob(targets_.data(), {count}, at::kLong);
    return torch::equal(tensors.input, input) && torch::equal(tensors.target, target);
  }

 private:
  std::vector<float> inputs_;
  std::vector<std::int64_t> targets_;
};

TEST(DeviceBatches, OnTheCpuLieInTheMemoryOfTheLoader) {
  DeviceBatches batches({}, kShape);
  EXPECT_FALSE(batches.allocator());
  Samples samples(4, 1);
  const train::Batch batch = samples.batch();
  const TensorBatch tensors = batches.take(batch);
  EXPECT_EQ(tensors.input.data_ptr(), batch.input.data());
  EXPECT_EQ(tensors.target.data_ptr(), batch.target.data());
  EXPECT_TRUE(samples.are(tensors));
  batches.release();
}

// A captured step reads the same memory again and again. The last batch of an epoch must not change
// it, and is not cut to its size.
TEST(DeviceBatches, WithTheFixedNumberOfSamplesAreInTheSameTensors) {
  for (const bool channels_last : {false, true}) {
    DeviceBatches batches({.channels_last = channels_last, .fixed = 4}, kShape);
    Samples first(4, 1);
    Samples last(3, 500);
    Samples next(4, 900);
    const TensorBatch fixed = batches.take(first.batch());
    EXPECT_TRUE(first.are(fixed));
    const TensorBatch other = batches.take(last.batch());
    EXPECT_TRUE(last.are(other));
    EXPECT_TRUE(first.are(fixed));
    EXPECT_NE(other.input.data_ptr(), fixed.input.data_ptr());
    const TensorBatch again = batches.take(next.batch());
    EXPECT_EQ(again.input.data_ptr(), fixed.input.data_ptr());
    EXPECT_EQ(again.target.data_ptr(), fixed.target.data_ptr());
    EXPECT_TRUE(next.are(fixed));
    EXPECT_EQ(fixed.input.is_contiguous(at::MemoryFormat::ChannelsLast), channels_last);
  }
}

TEST(DeviceBatches, ChannelsAreLastForPicturesOnly) {
  EXPECT_TRUE(
      with_channels_last(torch::zeros({2, 3, 4, 4})).is_contiguous(at::MemoryFormat::ChannelsLast));
  const at::Tensor rows = torch::zeros({2, 3});
  EXPECT_EQ(with_channels_last(rows).data_ptr(), rows.data_ptr());
}

TEST(RandomState, GoesOnWithTheSameNumbers) {
  torch::manual_seed(7);
  const std::string state = random_state(at::kCPU);
  const at::Tensor expected = torch::rand({4});
  torch::manual_seed(8);
  const auto restored = set_random_state(at::kCPU, state);
  EXPECT_TRUE(restored.has_value() && *restored);
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
}

// Seed and offset, as the generator of a GPU saves them.
TEST(RandomState, OfAnotherKindOfDeviceChangesNothing) {
  torch::manual_seed(7);
  const at::Tensor expected = torch::rand({4});
  torch::manual_seed(7);
  const auto restored = set_random_state(at::kCPU, std::string(16, 'x'));
  EXPECT_TRUE(restored.has_value() && !*restored);
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
}

TEST(ChannelsLast, AreForConvolutionsOnGpusUnlessTheUserSaysOtherwise) {
  const at::Device gpu(at::kCUDA, 0);
  EXPECT_TRUE(has_channels_last("auto", true, gpu));
  EXPECT_FALSE(has_channels_last("auto", true, at::kCPU));
  EXPECT_FALSE(has_channels_last("auto", false, gpu));
  EXPECT_FALSE(has_channels_last("off", true, gpu));
  EXPECT_TRUE(has_channels_last("on", true, at::kCPU));
}

}  // namespace
}  // namespace tally::app
