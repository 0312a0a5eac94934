#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "recipes/keyed.h"

namespace tally::recipes {

// Slots that are crossed: one key for their combination.
using Cross = std::vector<std::int64_t>;

// Returns the crosses of the wide part for a table with these fields; none for unknown tables.
std::vector<Cross> crosses_for(const std::vector<std::string>& fields);

// Returns the key of each cross of each sample: int64 [samples, slots] to [samples, crosses]; -1 if
// a slot is empty.
at::Tensor crossed_keys(const at::Tensor& keys, const std::vector<Cross>& crosses);

// Wide & Deep (Cheng et al. 2016): `wide` has a weight per key and per crossed key; the rest is in
// Tower.
class WideDeep final : public KeyedModel {
 public:
  WideDeep(const KeyedShape& shape, std::vector<Cross> crosses);
  at::Tensor forward_batch(const KeyedBatch& batch) override;

 private:
  const std::vector<Cross> crosses_;
  Tower tower_;
};

}  // namespace tally::recipes
