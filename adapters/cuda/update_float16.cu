#include "update.cuh"

namespace tally::cuda {

template void launch_update_of<Float16>(const exchange::DeviceBucket&, exchange::UpdateLoop,
                                        const exchange::GradientChange&, cudaStream_t);

}  // namespace tally::cuda
