#include "kernel/update/update_level.h"

namespace tally::kernel {
namespace {

#include "kernel/update/update_loops.inc"

}  // namespace

constinit const UpdateLoops kBaselineUpdates = kUpdates;

}  // namespace tally::kernel
