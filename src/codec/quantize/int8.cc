#include "codec/families.h"
#include "codec/quantize/scaled_bytes.h"

namespace tally::codec {

std::unique_ptr<Codec> make_int8(std::size_t block) {
  return std::make_unique<ScaledBytes>(kernel::quantize_kernels().int8, block);
}

}  // namespace tally::codec
