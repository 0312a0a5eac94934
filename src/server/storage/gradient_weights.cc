#include "server/storage/gradient_weights.h"

#include <cmath>

#include <fmt/format.h>

namespace tally::server {

Result<std::vector<double>> shares_of(std::span<const Gradient> gradients) {
  double total = 0;
  for (const Gradient& gradient : gradients) {
    if (!std::isfinite(gradient.weight) || gradient.weight < 0)
      return Error{.code = ErrorCode::kInvalid,
                   .message = fmt::format("a gradient of weight {}", gradient.weight)};
    total += gradient.weight;
  }
  if (!std::isfinite(total))
    return Error{.code = ErrorCode::kInvalid, .message = "gradients of infinite weight together"};
  std::vector<double> shares;
  shares.reserve(gradients.size());
  for (const Gradient& gradient : gradients)
    shares.push_back(gradient.weight == 0 ? 0 : gradient.weight / total);
  return shares;
}

std::string name_of_part(const TableSpec& spec, std::uint32_t part) {
  return fmt::format("table '{}' part {}", spec.name, part);
}

}  // namespace tally::server
