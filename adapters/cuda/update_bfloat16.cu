#include "update.cuh"

namespace tally::cuda {

template void launch_update_of<BFloat16>(const exchange::DeviceBucket&, exchange::UpdateLoop,
                                         const exchange::GradientChange&, cudaStream_t);

}  // namespace tally::cuda
