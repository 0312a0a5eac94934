#include "server/storage/storage.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "server/storage/dense_storage.h"
#include "server/storage/sparse_storage.h"
#include "server/storage/table_codec.h"

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
  if (spec.kind == TableKind::kSparse)
    return std::unique_ptr<Storage>(std::make_unique<SparseStorage>(spec, part, budget));
  if (const std::uint32_t parts = parts_of(spec, 1); part >= parts)
    return invalid("table '{}' has {} parts, but no part {}", spec.name, parts, part);
  TALLY_TRY(auto codec, TableCodec::make(spec));
  if (spec.type == DataType::kFloat32)
    return DenseStorage<float>::make(spec, part, std::move(codec), budget);
  return DenseStorage<double>::make(spec, part, nullptr, budget);
}

}  // namespace tally::server
