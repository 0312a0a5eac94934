#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/input_file.h"
#include "data/subset.h"

namespace tally::data {

enum class CsvTarget : std::uint8_t {
  kAuto,    // a numeric column is kNumber, a text column is kClass
  kNumber,  // float32
  kClass,   // int64 labels: index of the value among the sorted distinct values
};

// Limits: distinct texts per column, and features per row.
inline constexpr std::size_t kMaxCsvCategories = 1024;
inline constexpr std::size_t kMaxCsvFeatures = 65536;

struct CsvOptions {
  Split split;  // used without a test file; `split.train` selects the part in either case
  std::string target_column;  // name or number (from 1) of the column; empty: the last column
  CsvTarget target = CsvTarget::kAuto;
  int readers = 1;          // as in ReadOptions
  bool standardise = true;  // scale features to mean 0 and deviation 1 over the training part
};

// Opens a table as a dataset with inputs float32 {features}. The first row has the column names if
// none of its fields is a number. A column is numeric if its first value is a number; all its
// values must then be numbers. A text column becomes one feature per distinct text of the training
// file (one-hot). A missing value (empty, NA, N/A, NaN, null, ?) becomes the mean of the training
// part in a numeric column, and all zeros in a text column.
// kCorrupt, with file, line and the expected content, for a missing target, a row with another
// number of fields, or a test file with other column names or classes. kInvalid if the target
// column does not exist.
Result<std::unique_ptr<Dataset>> open_csv(const std::vector<std::filesystem::path>& train,
                                          const std::vector<std::filesystem::path>& test,
                                          const CsvOptions& options);

// The texts of a field that mean a missing value.
std::vector<std::string> missing_words();

struct TableEncoding;

// Opens a table for a model that was trained with `encoding`: columns, categories and scales are
// those of the model. Columns are found by the names in the first row, in any order and beside
// others, or by their position if the file has no names. A file without the target column is
// refused if `needs_target`; otherwise its targets are 0.
Result<std::unique_ptr<Dataset>> open_csv_like(const std::filesystem::path& path,
                                               const TableEncoding& encoding, bool needs_target);

// The same as open_csv() for files in memory.
Result<std::unique_ptr<Dataset>> make_csv(const NamedBytes& train, const NamedBytes* test,
                                          const CsvOptions& options);

}  // namespace tally::data
