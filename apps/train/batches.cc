#include "apps/train/batches.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>
#include <utility>

#include "adapters/torch/gpu_event.h"
#include "base/check.h"
#include "base/errors.h"

namespace tally::app {
namespace {

at::ScalarType scalar_type(DataType type) {
  switch (type) {
    case DataType::kInt64:
      return at::kLong;
    case DataType::kUInt8:
      return at::kByte;
    case DataType::kFloat64:
      return at::kDouble;
    default:
      TALLY_CHECK(type == DataType::kFloat32);
      return at::kFloat;
  }
}

at::Tensor tensor_of(std::span<std::byte> bytes, std::uint64_t samples,
                     const std::vector<std::int64_t>& shape, DataType type) {
  std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(samples)};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return torch::from_blob(bytes.data(), sizes, scalar_type(type));
}

}  // namespace

TensorBatch to_tensors(const train::Batch& batch, const data::SampleShape& shape,
                       const at::Device& device) {
  return {
      .input = tensor_of(batch.input, batch.samples, shape.input, shape.input_type).to(device),
      .target = tensor_of(batch.target, batch.samples, shape.target, shape.target_type).to(device)};
}

at::Tensor with_channels_last(const at::Tensor& input) {
  return input.dim() == 4 ? input.contiguous(at::MemoryFormat::ChannelsLast) : input;
}

bool has_channels_last(const std::string& option, bool has_convolutions, const at::Device& device) {
  return option == "auto" ? has_convolutions && device.is_cuda() : option == "on";
}

DeviceBatches::DeviceBatches(const Options& options, const data::SampleShape& shape)
    : options_(options), shape_(shape) {
  if (options.device.is_cuda()) copied_.emplace(at::kCUDA);
}

std::function<std::shared_ptr<std::byte>(std::size_t)> DeviceBatches::allocator() const {
  if (!options_.device.is_cuda()) return {};
  return [](std::size_t bytes) {
    const auto options = at::TensorOptions().dtype(at::kByte).pinned_memory(true);
    const at::Tensor memory = torch::empty({static_cast<std::int64_t>(bytes)}, options);
    return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory.data_ptr()),
                                      [memory](std::byte* /*first*/) {});
  };
}

TensorBatch DeviceBatches::take(const train::Batch& batch) {
  TensorBatch tensors{
      .input = tensor_of(batch.input, batch.samples, shape_.input, shape_.input_type),
      .target = tensor_of(batch.target, batch.samples, shape_.target, shape_.target_type)};
  if (copied_) {
    for (at::Tensor* const tensor : {&tensors.input, &tensors.target})
      *tensor = tensor->to(options_.device, tensor->scalar_type(), /*non_blocking=*/true);
    copied_->record(c10::impl::VirtualGuardImpl(at::kCUDA).getStream(options_.device));
  }
  if (options_.channels_last) tensors.input = with_channels_last(tensors.input);
  if (options_.fixed == 0 || batch.samples != options_.fixed) return tensors;
  if (!fixed_.input.defined()) {
    fixed_ = {.input = tensors.input.clone(), .target = tensors.target.clone()};
  } else {
    fixed_.input.copy_(tensors.input);
    fixed_.target.copy_(tensors.target);
  }
  return fixed_;
}

// The copy runs before the kernels of its step, so it has usually ended long before.
void DeviceBatches::release() {
  if (copied_) adapter::wait_for(*copied_);
}

std::string random_state(const at::Device& device) {
  const at::Generator& generator = at::globalContext().defaultGenerator(device);
  const at::Tensor state = generator.get_state().contiguous();
  return {static_cast<const char*>(state.data_ptr()), state.nbytes()};
}

Result<bool> set_random_state(const at::Device& device, const std::string& bytes) {
  // The states of CPUs and GPUs have different sizes.
  if (bytes.size() != random_state(device).size()) return false;
  at::Tensor state = torch::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(state.data_ptr(), bytes.data(), bytes.size());
  try {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    generator.set_state(state);
  } catch (const c10::Error& error) {
    return corrupt(std::string("random state: ") + error.what_without_backtrace());
  }
  return true;
}

}  // namespace tally::app
