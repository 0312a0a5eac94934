#pragma once
#include <memory>

#include "tally/communicator.h"

namespace tally::nccl {

// For tests: `inner`, which works on memory of this GPU, as a communicator over ordinary memory.
// Each operation copies its input to the GPU and its output back. Memory of allocate() is ordinary.
std::unique_ptr<Communicator> over_copies(std::unique_ptr<Communicator> inner, int gpu);

}  // namespace tally::nccl
