#include "kernel/quantize_level.h"

#include <cstddef>
#include <cstdint>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 16;

#include "kernel/reduce_packs.inc"

#include "kernel/quantize_steps.inc"

#include "kernel/quantize_casts.inc"

#include "kernel/quantize_bytes.inc"

#include "kernel/quantize_blocks.inc"

#include "kernel/quantize_natural.inc"

#include "kernel/quantize_formats.inc"

}  // namespace

constinit const QuantizeKernels kBaselineQuantize = kQuantize;

}  // namespace tally::kernel
