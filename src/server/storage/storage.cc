#include "server/storage/storage.h"

#include <cmath>

#include "server/protocol/message.h"

namespace tally::server {

Result<MeanFactors> mean_factors(std::span<const Gradient> gradients) {
  double total = 0;
  bool is_plain = true;
  for (const Gradient& gradient : gradients) {
    if (!std::isfinite(gradient.weight) || gradient.weight < 0)
      return invalid("a gradient of weight {}", gradient.weight);
    total += gradient.weight;
    is_plain = is_plain && gradient.factor == 1;
  }
  if (!std::isfinite(total)) return invalid("gradients of infinite weight together");
  MeanFactors mean;
  mean.shares.reserve(gradients.size());
  for (const Gradient& gradient : gradients)
    mean.shares.push_back(gradient.weight == 0 ? 0 : gradient.weight / total);
  if (is_plain || total == 0) return mean;
  mean.rate = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    mean.rate += mean.shares[i] * gradients[i].factor;
  for (std::size_t i = 0; i < gradients.size() && mean.rate > 0; ++i)
    mean.shares[i] *= gradients[i].factor / mean.rate;
  return mean;
}

Result<std::unique_ptr<Storage>> make_storage(const TableSpec& spec, std::uint32_t part,
                                              MemoryBudget& budget) {
  TALLY_TRY(check(spec));
  if (spec.kind == TableKind::kSparse) return make_sparse_storage(spec, part, budget);
  return make_dense_storage(spec, part, budget);
}

}  // namespace tally::server
