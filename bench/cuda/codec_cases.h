#pragma once
#include "adapters/cuda/cuda_device.h"

namespace tally::bench {

// Measures the codecs of a GPU on runs of 64 Mi values: encoding, encoding with
// feedback, decoding. Each result is first compared with the CPU's. Prints GB/s of the bytes that
// must be read and written, and their share of `copy_bytes_per_second`, which counts a device
// copy's reads and writes; the goal is 80 % for int8, sign and bf16. A codec with a wrong result is
// not measured, and named. Returns whether all results were right.
bool run_codec_cases(cuda::CudaDevice& gpu, double copy_bytes_per_second);

}  // namespace tally::bench
