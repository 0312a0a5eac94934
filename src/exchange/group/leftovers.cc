#include "exchange/group/leftovers.h"

#include <algorithm>

namespace tally::exchange {

void Leftovers::keep(std::span<const CodecState> states, const Layout& layout, int hosts) {
  for (const CodecState& state : states) {
    const bool is_back = state.name == "back";
    if (!is_back && state.name != "residual") continue;
    const Layout::Place& place = layout.place_of[state.parameter];
    Leftover leftover{.parameter = state.parameter,
                      .bucket = place.bucket,
                      .first = place.begin + state.first,
                      .values = {state.values.begin(), state.values.end()}};
    if (is_back)
      for (float& value : leftover.values) value *= static_cast<float>(hosts);
    kept_.push_back(std::move(leftover));
  }
}

void Leftovers::add(std::size_t bucket, std::span<const std::uint8_t> used, Range local,
                    double factor, std::span<std::byte> sum) {
  auto* const values = reinterpret_cast<float*>(sum.data());
  const auto is_due = [&](const Leftover& leftover) {
    return leftover.bucket == bucket && used[leftover.parameter] != 0;
  };
  for (const Leftover& leftover : kept_) {
    if (!is_due(leftover)) continue;
    float* const first = values + (leftover.first - local.begin);
    for (std::size_t i = 0; i < leftover.values.size(); ++i)
      first[i] += static_cast<float>(factor) * leftover.values[i];
  }
  std::erase_if(kept_, is_due);
}

}  // namespace tally::exchange
