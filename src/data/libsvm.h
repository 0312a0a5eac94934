#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/subset.h"

namespace tally::data {

// Sparse rows in libsvm's form: a line "label index:value index:value ...", indices from 1, rising.
// What follows # is a comment. Samples are given out dense: float32 {features}.

inline constexpr std::uint32_t kMaxLibsvmFeatures = std::uint32_t{1} << 22;

struct SparseRows {
  std::vector<std::uint64_t> starts;   // of each row in the two below, and the end of the last
  std::vector<std::uint32_t> indices;  // from 0
  std::vector<float> values;
  std::vector<double> labels;
  std::uint32_t features = 0;  // the highest index that occurs, from 1
};

// kCorrupt, with the offset, for everything that is not a number, an index or a row.
Result<SparseRows> parse_libsvm(std::span<const std::byte> bytes, const std::string& name);

// Whether a file that begins so is in this form.
bool looks_like_libsvm(std::string_view beginning);

// One file, with the test part in another or held out by `split`; which part is `split.train`. Both
// parts have the features of both. Labels that are whole numbers, at most 1000 different ones in
// the training file, are classes (int64 targets, in rising order); others are float32 targets.
Result<std::unique_ptr<Dataset>> open_libsvm(const std::vector<std::filesystem::path>& train,
                                             const std::vector<std::filesystem::path>& test,
                                             const Split& split);

}  // namespace tally::data
