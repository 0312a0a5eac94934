#include "adapters/torch/tensors.h"

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

namespace tally::adapter {
namespace {

// A tensor of kUInt8 is of the first type that it stands for, kByte.
constexpr std::array<std::pair<at::ScalarType, DataType>, 9> kTypes = {{
    {at::kFloat, DataType::kFloat32},
    {at::kDouble, DataType::kFloat64},
    {at::kHalf, DataType::kFloat16},
    {at::kBFloat16, DataType::kBFloat16},
    {at::kChar, DataType::kInt8},
    {at::kByte, DataType::kUInt8},
    {at::kBool, DataType::kUInt8},
    {at::kInt, DataType::kInt32},
    {at::kLong, DataType::kInt64},
}};

}  // namespace

void refuse(ErrorCode code, std::string message) {
  throw Failure(Error{.code = code, .message = std::move(message)});
}

std::string first_line(const std::string& message) { return message.substr(0, message.find('\n')); }

DataType data_type_of(const at::Tensor& tensor, const std::string& name) {
  for (const auto& [scalar, type] : kTypes)
    if (scalar == tensor.scalar_type()) return type;
  refuse(ErrorCode::kInvalid, fmt::format("{} has elements of type {}, which cannot be shared",
                                          name, c10::toString(tensor.scalar_type())));
}

at::ScalarType scalar_type_of(DataType wanted) {
  for (const auto& [scalar, type] : kTypes)
    if (type == wanted) return scalar;
  refuse(ErrorCode::kInvalid, "unknown type of a tensor");
}

at::Tensor tensor_over(std::span<std::byte> memory, at::ScalarType type, const at::Tensor& like,
                       const at::Device& device) {
  return at::from_blob(memory.data(), like.sizes(), at::TensorOptions().dtype(type).device(device));
}

at::Tensor tensor_owning(at::DataPtr memory, const at::Tensor& like) {
  const auto held = std::make_shared<at::DataPtr>(std::move(memory));
  return at::from_blob(
      held->get(), like.sizes(), [held](void*) { held->clear(); },
      at::TensorOptions().dtype(like.scalar_type()).device(at::kCPU));
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

checkpoint::TensorInfo info_of(const NamedTensor& named) {
  return {.name = named.name,
          .type = data_type_of(named.tensor, named.name),
          .shape = named.tensor.sizes().vec()};
}

std::vector<NamedTensor> all_tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors;
  std::map<const void*, std::size_t> index_of;
  const auto add = [&](const auto& item, bool is_buffer) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined()) return;
    const auto [found, is_new] = index_of.emplace(tensor.unsafeGetTensorImpl(), tensors.size());
    if (is_new)
      tensors.push_back({.name = item.key(), .tensor = tensor, .is_buffer = is_buffer});
    else
      tensors[found->second].other_names.push_back(item.key());
  };
  for (const auto& item : module.named_parameters()) add(item, /*is_buffer=*/false);
  for (const auto& item : module.named_buffers()) add(item, /*is_buffer=*/true);
  return tensors;
}

ModuleTensors tensors_of(const torch::nn::Module& module) {
  ModuleTensors tensors;
  for (NamedTensor& named : all_tensors_of(module)) {
    const bool is_trained = named.tensor.requires_grad() && !named.is_buffer;
    (is_trained ? tensors.trained : tensors.untrained).push_back(std::move(named));
  }
  return tensors;
}

}  // namespace tally::adapter
