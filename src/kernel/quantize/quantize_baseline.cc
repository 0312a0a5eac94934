#include "kernel/quantize/quantize_level.h"

#include <cstddef>
#include <cstdint>

namespace tally::kernel {
namespace {

constexpr int kVectorBytes = 16;

#include "kernel/reduce/reduce_packs.inc"

#include "kernel/quantize/quantize_steps.inc"

#include "kernel/quantize/quantize_casts.inc"

#include "kernel/quantize/quantize_bytes.inc"

#include "kernel/quantize/quantize_blocks.inc"

#include "kernel/quantize/quantize_natural.inc"

#include "kernel/quantize/quantize_formats.inc"

}  // namespace

constinit const QuantizeKernels kBaselineQuantize = kQuantize;

}  // namespace tally::kernel
