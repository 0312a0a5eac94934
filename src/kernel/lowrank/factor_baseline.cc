#include "kernel/lowrank/factor_level.h"

namespace tally::kernel {
namespace {

#include "kernel/lowrank/factor_loops.inc"

}  // namespace

constinit const FactorKernels kBaselineFactors = kFactors;

}  // namespace tally::kernel
