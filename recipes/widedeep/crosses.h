#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <torch/torch.h>

namespace tally::recipes {

// Slots that are looked at together: one key for what all of them have.
using Cross = std::vector<std::int64_t>;

// Those that the wide part remembers of a table with these fields; none of tables it does not know.
std::vector<Cross> crosses_for(const std::vector<std::string>& fields);

// The key of each cross of each sample: int64 [samples, slots] to [samples, crosses]; -1 where a
// slot is empty.
at::Tensor crossed_keys(const at::Tensor& keys, const std::vector<Cross>& crosses);

}  // namespace tally::recipes
