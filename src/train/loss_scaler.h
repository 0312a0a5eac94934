#pragma once
#include <cstdint>

namespace tally::train {

// The factor of the loss in training with float16, whose smallest numbers are 6e-8: gradients below
// that vanish unless the loss is scaled up before the backward pass, and gradients above 65504
// overflow. The factor grows while nothing overflows and falls when something does. A value; the
// defaults are PyTorch's.
struct LossScaler {
  double scale = 65536;
  double growth = 2;              // after `interval` updates in a row without an overflow
  double backoff = 0.5;           // after an overflow
  std::uint64_t interval = 2000;  // updates
  std::uint64_t good = 0;         // updates since the last overflow or growth

  // An update was made, or discarded because a gradient had overflowed.
  void ended(bool overflowed);

  friend bool operator==(const LossScaler&, const LossScaler&) = default;
};

}  // namespace tally::train
