#include "codec/families.h"
#include "codec/quantize/scaled_bytes.h"

namespace tally::codec {

std::unique_ptr<Codec> make_fp8(plan::Fp8Format format, std::size_t block) {
  const kernel::QuantizeKernels& loops = kernel::quantize_kernels();
  return std::make_unique<ScaledBytes>(format == plan::Fp8Format::kE4m3 ? loops.e4m3 : loops.e5m2,
                                       block);
}

}  // namespace tally::codec
