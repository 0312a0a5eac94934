#pragma once
#include <string>
#include <vector>

#include "data/dataset.h"
#include "recipes/recipe.h"
#include "tally/checkpoint.h"
#include "tally/error.h"

namespace tally::app {

// Facts about libtorch on this machine. Only the .cc includes torch headers.

// Returns the number of CUDA GPUs; 0 if libtorch has no CUDA.
int cuda_devices();

// kInvalid, with the cause, if `device` (auto, cpu, cuda) is not available.
Result<void> check_device(const std::string& device);

// kInvalid if libtorch cannot compute in this precision (float32, bfloat16, float16) there.
Result<void> check_precision(const std::string& precision, const std::string& device);

// Whether `device` means a GPU on this machine.
bool uses_cuda(const std::string& device);
// The same for any of the workers' devices.
bool any_uses_cuda(const std::vector<std::string>& devices);

// kInvalid if `graphs` are requested and none of the workers' devices is a GPU.
Result<void> check_graphs(bool graphs, const std::vector<std::string>& devices);

// Why workers on these devices cannot make their steps from CUDA graphs; empty: they may.
std::string why_no_graphs(const std::vector<std::string>& devices);

// Lets libtorch multiply float32 matrices in TF32 on GPUs, which keeps 10 bits of a mantissa.
void allow_tf32();

// Returns the tensors of the model that a recipe makes for `dataset`, as a checkpoint lists them.
std::vector<checkpoint::TensorInfo> tensors_of(const recipes::Recipe& recipe,
                                               const data::Dataset& dataset);

// Returns the names of the sparse tables of that model.
std::vector<std::string> sparse_tables_of(const recipes::Recipe& recipe,
                                          const data::Dataset& dataset);

// Returns the number of trainable parameters of that model.
std::uint64_t parameters_of(const recipes::Recipe& recipe, const data::Dataset& dataset);

// Sets the number of threads that libtorch computes with.
void set_threads(int threads);

}  // namespace tally::app
