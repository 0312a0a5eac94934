#pragma once

namespace tally::bench {

// Measures the update kernels of the current CUDA device, a gradient gathered into sums, and sums
// of several arrays, over 64 Mi float32 values. Each result is first compared with the CPU's over
// fewer values. Prints like run_codec_cases(); the goal is for sgd and AdamW. Returns whether all
// results were right.
bool run_update_cases(double copy_bytes_per_second);

}  // namespace tally::bench
