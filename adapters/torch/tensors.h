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

// The first line of a message of libtorch, which may go on with advice and a backtrace.
std::string first_line(const std::string& message);

// Failure kInvalid, with the tensor's name, for types that Tally does not support.
DataType data_type_of(const at::Tensor& tensor, const std::string& name);
at::ScalarType scalar_type_of(DataType type);

// A tensor with the shape of `like` over `memory` of `device`, which must outlive it.
at::Tensor tensor_over(std::span<std::byte> memory, at::ScalarType type, const at::Tensor& like,
                       const at::Device& device = at::kCPU);

// A tensor on the CPU with the shape and type of `like`, which owns `memory`.
at::Tensor tensor_owning(at::DataPtr memory, const at::Tensor& like);

// The bytes of a contiguous tensor on the CPU.
std::span<std::byte> bytes_of(const at::Tensor& tensor);

// Copies `from`, in any layout and on any device, to a contiguous tensor.
void copy_into(const at::Tensor& to, const at::Tensor& from);

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  std::vector<std::string> other_names = {};  // of tied parameters
  bool is_buffer = false;
};

// Failure as from data_type_of().
checkpoint::TensorInfo info_of(const NamedTensor& named);

// The parameters of a module, then its buffers, each once.
std::vector<NamedTensor> all_tensors_of(const torch::nn::Module& module);

// The same by their treatment in a trainer.
struct ModuleTensors {
  std::vector<NamedTensor> trained;    // parameters that require gradients
  std::vector<NamedTensor> untrained;  // the other parameters, then the buffers
};
ModuleTensors tensors_of(const torch::nn::Module& module);

}  // namespace tally::adapter
