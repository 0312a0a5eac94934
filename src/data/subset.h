#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.h"

namespace tally::data {

// Which part of data that have no split of their own: `validation` of them, chosen by `seed`, are
// held out.
struct Split {
  double validation = 0.1;
  bool train = true;  // all but those; otherwise those
  std::uint64_t seed = 1;
};

// kInvalid unless 0 <= validation < 1.
Result<void> check(const Split& split);

// The samples of that part, in their order. The two parts of one seed have each sample once.
std::vector<std::uint64_t> part_of(std::uint64_t size, const Split& split);

// Some samples of a dataset, as one; the indices are below its size.
std::unique_ptr<Dataset> make_subset(std::unique_ptr<Dataset> whole,
                                     std::vector<std::uint64_t> indices);

}  // namespace tally::data
