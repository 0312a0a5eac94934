#include "apps/train/batches.h"

#include <ATen/autocast_mode.h>

#include <cstring>

#include "base/check.h"
#include "base/errors.h"

#define TALLY_TORCH_GE(a, b) \
  (TORCH_VERSION_MAJOR > (a) || (TORCH_VERSION_MAJOR == (a) && TORCH_VERSION_MINOR >= (b)))

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

at::ScalarType type_of(const std::string& precision) {
  if (precision == "bfloat16") return at::kBFloat16;
  return precision == "float16" ? at::kHalf : at::kFloat;
}

void set_autocast(bool cuda, at::ScalarType type, bool enabled) {
#if TALLY_TORCH_GE(2, 4)
  const at::DeviceType device = cuda ? at::kCUDA : at::kCPU;
  at::autocast::set_autocast_enabled(device, enabled);
  at::autocast::set_autocast_dtype(device, type);
#else
  if (cuda) {
    at::autocast::set_enabled(enabled);
    at::autocast::set_autocast_gpu_dtype(type);
  } else {
    at::autocast::set_cpu_enabled(enabled);
    at::autocast::set_autocast_cpu_dtype(type);
  }
#endif
}

}  // namespace

TensorBatch to_tensors(const train::Batch& batch, const data::SampleShape& shape,
                       const at::Device& device) {
  return {
      .input = tensor_of(batch.input, batch.samples, shape.input, shape.input_type).to(device),
      .target = tensor_of(batch.target, batch.samples, shape.target, shape.target_type).to(device)};
}

PrecisionScope::PrecisionScope(const std::string& precision, const at::Device& device)
    : type_(type_of(precision)), cuda_(device.is_cuda()) {
  if (type_ == at::kFloat) return;
  at::autocast::increment_nesting();
  set_autocast(cuda_, type_, true);
}

PrecisionScope::~PrecisionScope() {
  if (type_ == at::kFloat) return;
  set_autocast(cuda_, type_, false);
  // Cast parameters are cached until the outermost scope ends, but change with every step.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

std::string random_state(const at::Device& device) {
  const at::Generator& generator = at::globalContext().defaultGenerator(device);
  const at::Tensor state = generator.get_state().contiguous();
  return {static_cast<const char*>(state.data_ptr()), state.nbytes()};
}

Result<void> set_random_state(const at::Device& device, const std::string& bytes) {
  at::Tensor state = torch::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(state.data_ptr(), bytes.data(), bytes.size());
  try {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    generator.set_state(state);
  } catch (const c10::Error& error) {
    return corrupt(std::string("random state: ") + error.what_without_backtrace());
  }
  return {};
}

}  // namespace tally::app
