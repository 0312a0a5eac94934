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

// Sparse rows in libsvm format: lines "label index:value index:value ..." with ascending indices
// from 1. A # starts a comment. The dataset returns dense samples: float32 {features}.

inline constexpr std::uint32_t kMaxLibsvmFeatures = std::uint32_t{1} << 22;

struct SparseRows {
  // Start of each row in `indices` and `values`, and the end of the last row.
  std::vector<std::uint64_t> starts;
  std::vector<std::uint32_t> indices;  // from 0
  std::vector<float> values;
  std::vector<double> labels;
  std::uint32_t features = 0;  // the highest index in the file, counted from 1
};

// kCorrupt, with the offset, for an invalid number, index or row.
Result<SparseRows> parse_libsvm(std::span<const std::byte> bytes, const std::string& name);

// `readers` as in ReadOptions.
Result<SparseRows> read_libsvm(const std::filesystem::path& file, int readers = 1);

// True if a file with this beginning is in libsvm format.
bool looks_like_libsvm(std::string_view beginning);

// Opens the part that `split.train` selects. The test part is the file `test`, or held out by
// `split` if `test` is empty. Both parts have the same number of features. Labels are classes
// (int64 targets, in ascending order) if all are integers with at most 1000 distinct values in the
// training file; otherwise they are float32 targets.
Result<std::unique_ptr<Dataset>> open_libsvm(const std::vector<std::filesystem::path>& train,
                                             const std::vector<std::filesystem::path>& test,
                                             const Split& split, int readers = 1);

// Opens rows for a model that was trained on vectors of `features` numbers and the labels
// `classes`; none: its targets are numbers. kCorrupt, with the row, for an index above `features`,
// and for an unknown label if `needs_labels`; otherwise it becomes the first class.
Result<std::unique_ptr<Dataset>> open_libsvm_like(const std::filesystem::path& file,
                                                  std::uint32_t features,
                                                  const std::vector<std::string>& classes,
                                                  bool needs_labels);

}  // namespace tally::data
