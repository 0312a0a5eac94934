// Replaces cuda/open_gpu.cc in builds without CUDA.
#include "adapters/torch/gpu.h"

namespace tally::adapter {

std::unique_ptr<Gpu> open_gpu(const at::Device& /*device*/) { return nullptr; }

}  // namespace tally::adapter
