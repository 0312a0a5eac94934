#include "adapters/torch/tensors.h"

#include <cstring>
#include <set>

#include <fmt/format.h>

namespace tally::adapter {

void refuse(ErrorCode code, std::string message) {
  throw Failure(Error{.code = code, .message = std::move(message)});
}

DataType data_type_of(const at::Tensor& tensor, const std::string& name) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DataType::kFloat32;
    case at::kDouble:
      return DataType::kFloat64;
    case at::kHalf:
      return DataType::kFloat16;
    case at::kBFloat16:
      return DataType::kBFloat16;
    case at::kChar:
      return DataType::kInt8;
    case at::kByte:
    case at::kBool:
      return DataType::kUInt8;
    case at::kInt:
      return DataType::kInt32;
    case at::kLong:
      return DataType::kInt64;
    default:
      refuse(ErrorCode::kInvalid, fmt::format("{} has elements of type {}, which cannot be shared",
                                              name, c10::toString(tensor.scalar_type())));
  }
}

at::ScalarType scalar_type_of(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return at::kFloat;
    case DataType::kFloat64:
      return at::kDouble;
    case DataType::kFloat16:
      return at::kHalf;
    case DataType::kBFloat16:
      return at::kBFloat16;
    case DataType::kInt8:
      return at::kChar;
    case DataType::kUInt8:
      return at::kByte;
    case DataType::kInt32:
      return at::kInt;
    case DataType::kInt64:
      return at::kLong;
  }
  refuse(ErrorCode::kInvalid, "unknown type of a tensor");
}

std::vector<std::int64_t> shape_of(const at::Tensor& tensor) {
  return {tensor.sizes().begin(), tensor.sizes().end()};
}

at::Tensor view_of(std::span<std::byte> memory, const at::Tensor& like) {
  return at::from_blob(memory.data(), like.sizes(),
                       at::TensorOptions().dtype(like.dtype()).device(at::kCPU));
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

void copy_into(const at::Tensor& to, const at::Tensor& from) {
  const at::NoGradGuard no_grad;
  if (from.is_sparse()) return copy_into(to, from.to_dense());
  const bool same = from.device().is_cpu() && to.device().is_cpu() && from.is_contiguous() &&
                    from.scalar_type() == to.scalar_type() && from.numel() == to.numel();
  if (!same) {
    to.copy_(from);
  } else if (from.data_ptr() != to.data_ptr()) {
    std::memcpy(to.data_ptr(), from.data_ptr(), to.nbytes());
  }
}

ModuleTensors tensors_of(const torch::nn::Module& module) {
  ModuleTensors tensors;
  std::set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().defined() || !seen.insert(item.value().unsafeGetTensorImpl()).second)
      continue;
    auto& list = item.value().requires_grad() ? tensors.trained : tensors.frozen;
    list.push_back({item.key(), item.value()});
  }
  for (const auto& item : module.named_buffers()) {
    if (!item.value().defined() || !seen.insert(item.value().unsafeGetTensorImpl()).second)
      continue;
    tensors.buffers.push_back({item.key(), item.value()});
  }
  return tensors;
}

}  // namespace tally::adapter
