#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/subset.h"

namespace tally::data {

enum class CsvTarget : std::uint8_t {
  kAuto,    // numbers are values, text is classes
  kNumber,  // float32
  kClass,   // int64 labels of the distinct values in their order, numbers too
};

// Distinct texts of a column, and features of a row in all, that are taken.
inline constexpr std::size_t kMaxCsvCategories = 1024;
inline constexpr std::size_t kMaxCsvFeatures = 65536;

struct CsvOptions {
  Split split;  // used where there is no test file; `split.train` says which part is wanted
  std::string target_column;  // its name, or its number from 1; empty: the last
  CsvTarget target = CsvTarget::kAuto;
  bool standardise = true;  // features to mean 0 and deviation 1, by the training part
};

// A table as samples: inputs float32 {features}. The first row is names if none of its fields is a
// number. A column whose first value is a number has only numbers; one of text becomes one feature
// per distinct text of the training file: 1 where it is that, else 0. Missing values (empty, NA,
// N/A, NaN, null, ?) become the mean of the training part, or no text at all. A missing target is
// an error, as is a row with another number of fields: kCorrupt, with file, offset and what was
// expected. kInvalid if there is no such target column.
Result<std::unique_ptr<Dataset>> open_csv(const std::vector<std::filesystem::path>& train,
                                          const std::vector<std::filesystem::path>& test,
                                          const CsvOptions& options);

// The same of files in memory, with their names.
struct CsvFile {
  std::span<const std::byte> bytes;
  std::string name;
};
Result<std::unique_ptr<Dataset>> make_csv(const CsvFile& train, const CsvFile* test,
                                          const CsvOptions& options);

}  // namespace tally::data
