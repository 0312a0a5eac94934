#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.h"

namespace tally::data {

// Selects a part of a dataset without a test part: the fraction `validation`, chosen by `seed`, is
// held out, at least one sample of two or more.
struct Split {
  double validation = 0.1;
  bool train = true;  // true: the rest; false: the held-out samples
  std::uint64_t seed = 1;
};

// kInvalid unless 0 <= validation < 1.
Result<void> check(const Split& split);

// The indices of the selected part, in ascending order. The two parts of one seed together have
// each sample once.
std::vector<std::uint64_t> part_of(std::uint64_t size, const Split& split);

// A dataset of selected samples of `whole`; all indices are below its size.
std::unique_ptr<Dataset> make_subset(std::unique_ptr<Dataset> whole,
                                     std::vector<std::uint64_t> indices);

}  // namespace tally::data
