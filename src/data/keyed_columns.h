#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "data/input_file.h"
#include "data/keyed.h"
#include "data/preprocessing.h"
#include "data/subset.h"
#include "tally/error.h"

namespace tally::data {

// Tables of the user's own as rows of keys. Each column but the target has one slot for its
// category, and a numeric column has a second slot for its value:
//
//   text    category: the text without surrounding spaces
//   number  category: the number itself if the training part has whole numbers only, each
//           kWholeRepeats times on average or more; otherwise the bucket among kBuckets buckets
//           with equally many training samples
//           value: (number - mean) / deviation over the training part, at most kMostDeviations
//
// A missing value leaves the slots of its column empty. So does a number that is not whole in the
// category slot of a column of whole numbers. A category that the training part does not have is a
// key like any other.
inline constexpr std::size_t kWholeRepeats = 5;
inline constexpr std::size_t kBuckets = 16;
inline constexpr double kMostDeviations = 10;
// Larger whole numbers are not exact as float64.
inline constexpr double kMostWhole = 9007199254740992.0;  // 2^53

// The characters around a text that do not belong to its category.
inline constexpr std::string_view kSpaces = " \t\r\n";

// The field of the value slot of a numeric column; its key has the category "". The field of a
// category slot is the name of the column.
std::string value_field_of(std::string_view column);

struct KeyedColumnsOptions {
  Split split;  // used without a test file; `split.train` selects the part in either case
  std::string target_column;  // as in CsvOptions
  int readers = 1;            // as in ReadOptions
};

// Reads the selected part of a table. Columns are found and refused as by make_csv(), except that a
// text column may have any number of categories, and that the target has exactly two classes: texts
// or numbers; the second one in their order is the label 1. kInvalid, with the classes, otherwise.
Result<KeyedRows> read_keyed_columns(const NamedBytes& train, const NamedBytes* test,
                                     const KeyedColumnsOptions& options);

// Reads a table for a model that was trained with `encoding`. Columns are found as by
// open_csv_like(); without the need of a target all labels are 0.
Result<KeyedRows> read_keyed_columns_like(const NamedBytes& file, const KeyedEncoding& encoding,
                                          const std::vector<std::string>& classes,
                                          bool needs_target);

}  // namespace tally::data
