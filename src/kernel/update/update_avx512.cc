#include "kernel/update/update_level.h"

#if defined(__x86_64__)
namespace tally::kernel {
namespace {

#include "kernel/update/update_loops.inc"

}  // namespace

constinit const UpdateLoops kAvx512Updates = kUpdates;

}  // namespace tally::kernel
#endif
