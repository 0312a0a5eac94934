#include "kernel/update_level.h"

namespace tally::kernel {
namespace {

#include "kernel/update_loops.inc"

}  // namespace

constinit const UpdateLoops kBaselineUpdates = kUpdates;

}  // namespace tally::kernel
