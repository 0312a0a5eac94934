#include "server/storage/storage.h"

#include <cmath>

#include "server/protocol/message.h"

namespace tally::server {

Result<std::vector<double>> shares_of(std::span<const Gradient> gradients) {
  double total = 0;
  for (const Gradient& gradient : gradients) {
    if (!std::isfinite(gradient.weight) || gradient.weight < 0)
      return invalid("a gradient of weight {}", gradient.weight);
    total += gradient.weight;
  }
  if (!std::isfinite(total)) return invalid("gradients of infinite weight together");
  std::vector<double> shares;
  shares.reserve(gradients.size());
  for (const Gradient& gradient : gradients)
    shares.push_back(gradient.weight == 0 ? 0 : gradient.weight / total);
  return shares;
}

Result<std::unique_ptr<Storage>> make_storage(const TableSpec& spec, std::uint32_t part,
                                              MemoryBudget& budget) {
  TALLY_TRY(check(spec));
  if (spec.kind == TableKind::kSparse) return make_sparse_storage(spec, part, budget);
  return make_dense_storage(spec, part, budget);
}

}  // namespace tally::server
