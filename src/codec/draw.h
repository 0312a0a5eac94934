#pragma once
#include "base/rng.h"
#include "codec/codec.h"
#include "kernel/counter_random.h"

namespace tally::codec {

// The random sequence of one encoding; number i is for value i of the run.
inline kernel::RandomKey key_of(const Draw& draw) {
  std::uint64_t mixed = Rng(draw.seed).next();
  for (const std::uint64_t word : {draw.step, std::uint64_t{draw.rank}, draw.first})
    mixed = Rng(mixed ^ word).next();
  return {.low = static_cast<std::uint32_t>(mixed),
          .high = static_cast<std::uint32_t>(mixed >> 32)};
}

}  // namespace tally::codec
