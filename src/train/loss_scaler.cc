#include "train/loss_scaler.h"

#include <algorithm>

namespace tally::train {

void LossScaler::ended(bool overflowed) {
  // The largest float that a loss may be multiplied by without becoming infinite by itself.
  constexpr double kMost = 0x1p100;
  if (overflowed) {
    scale = std::max(1e-30, scale * backoff);
    good = 0;
  } else if (++good == interval) {
    scale = std::min(kMost, scale * growth);
    good = 0;
  }
}

}  // namespace tally::train
