#include "update.cuh"

namespace tally::cuda {

template void launch_update_of<Plain<float>>(const exchange::DeviceBucket&, exchange::UpdateLoop,
                                             const exchange::GradientChange&, cudaStream_t);

void launch_update(const exchange::DeviceBucket& bucket, exchange::UpdateLoop loop,
                   const exchange::GradientChange& change, cudaStream_t stream) {
  if (bucket.cell_count == 0) return;
  with_type(bucket.type,
            [&]<typename Type>(Type) { launch_update_of<Type>(bucket, loop, change, stream); });
}

}  // namespace tally::cuda
