#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "tally/torch.h"
#include "tally/types.h"

namespace tally::adapter {

using tally::or_throw;
[[noreturn]] void refuse(ErrorCode code, std::string message);

// Failure kInvalid, with the tensor's name, for types that Tally does not support.
DataType data_type_of(const at::Tensor& tensor, const std::string& name);
at::ScalarType scalar_type_of(DataType type);

std::vector<std::int64_t> shape_of(const at::Tensor& tensor);

// A tensor on the CPU with the type and shape of `like` over `memory`, which must outlive it.
at::Tensor view_of(std::span<std::byte> memory, const at::Tensor& like);

// The bytes of a contiguous tensor on the CPU.
std::span<std::byte> bytes_of(const at::Tensor& tensor);

// Copies `from`, in any layout and on any device, to a contiguous tensor.
void copy_into(const at::Tensor& to, const at::Tensor& from);

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// A module's tensors by their treatment in a trainer, each once, under its first name.
struct ModuleTensors {
  std::vector<NamedTensor> trained;  // parameters that require gradients
  std::vector<NamedTensor> frozen;   // the other parameters
  std::vector<NamedTensor> buffers;
};
ModuleTensors tensors_of(const torch::nn::Module& module);

}  // namespace tally::adapter
