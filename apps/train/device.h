#pragma once
#include <string>
#include <vector>

#include "data/dataset.h"
#include "recipes/recipe.h"
#include "tally/checkpoint.h"
#include "tally/error.h"

namespace tally::app {

// What libtorch can do on this machine. Headers of torch are left to the .cc.

// GPUs that CUDA sees; 0 where libtorch has no CUDA.
int cuda_devices();
std::string torch_version();

// kInvalid if `device` (auto, cpu, cuda) is not to be had here.
Result<void> check_device(const std::string& device);

// Whether `device` means a GPU here.
bool uses_cuda(const std::string& device);

// The tensors of the model that a recipe makes for `dataset`, as a checkpoint lists them.
std::vector<checkpoint::TensorInfo> tensors_of(const recipes::Recipe& recipe,
                                               const data::Dataset& dataset);

// Numbers in the parameters of that model that are trained.
std::uint64_t parameters_of(const recipes::Recipe& recipe, const data::Dataset& dataset);

// Threads that libtorch computes with.
void set_threads(int threads);

}  // namespace tally::app
