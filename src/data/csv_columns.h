#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "data/csv.h"
#include "data/csv_cursor.h"

namespace tally::data {

struct CsvColumn {
  std::string name;
  bool known = false;  // whether it has a value at all
  bool numeric = true;
  std::vector<std::string> categories;  // of text, in their order
  std::size_t first_feature = 0;
};

// What the columns of a table mean.
struct CsvColumns {
  std::vector<CsvColumn> columns;
  bool has_names = false;  // in its first row
  std::size_t target = 0;  // a column
  bool target_is_class = false;
  std::size_t features = 0;
};

bool is_missing(const std::string& text);

// Goes through a table once to find that out.
Result<CsvColumns> find_columns(const CsvFile& file, const CsvOptions& options);

// One row's place of a column's value; `row` is for messages.
Error bad_field(const CsvFile& file, const CsvColumn& column, const CsvField& field,
                const std::string& expected);

}  // namespace tally::data
