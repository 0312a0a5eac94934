#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/lane/codec_state.h"
#include "exchange/memory/parameter_layout.h"

namespace tally::exchange {

// The residuals of codecs that codec=auto has tried and discarded, to be added to the next
// gradients of this host.
class Leftovers final {
 public:
  // Saves the residuals among `states`. The residual of a mean belongs to all `hosts`, and is added
  // to the gradient of one of them.
  void keep(std::span<const CodecState> states, const Layout& layout, int hosts);
  // Adds the leftovers of the bucket's used parameters to `sum`, the range `local` of this host's
  // mean times `factor`, and forgets them.
  void add(std::size_t bucket, std::span<const std::uint8_t> used, Range local, double factor,
           std::span<std::byte> sum);

 private:
  struct Leftover {
    std::size_t parameter = 0;
    std::size_t bucket = 0;
    std::size_t first = 0;  // element of the bucket
    std::vector<float> values;
  };
  std::vector<Leftover> kept_;
};

}  // namespace tally::exchange
