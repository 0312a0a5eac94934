#include "kernel/lowrank/factor_level.h"

#if defined(__x86_64__)
namespace tally::kernel {
namespace {

#include "kernel/lowrank/factor_loops.inc"

}  // namespace

constinit const FactorKernels kAvx2Factors = kFactors;

}  // namespace tally::kernel
#endif
