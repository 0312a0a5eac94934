#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/csv.h"
#include "data/csv_cursor.h"

namespace tally::data {

struct CsvColumn {
  std::string name;
  bool known = false;  // true after the first value that is not missing
  bool numeric = true;
  std::vector<std::string> categories;  // distinct texts, sorted
  std::size_t first_feature = 0;
};

// The meaning of the columns of a table.
struct CsvColumns {
  std::vector<CsvColumn> columns;
  bool has_names = false;  // the first row has the column names
  std::size_t target = 0;  // index of the target column
  bool target_is_class = false;
  std::size_t features = 0;
  std::uint64_t rows = 0;  // without the names
};

bool is_missing(const std::string& text);

// The categories of text columns other than the target.
enum class Categories : std::uint8_t {
  kListed,  // each is a feature; limited by kMaxCsvCategories and kMaxCsvFeatures
  kHashed,  // not listed, and without limits; nor are features counted
};

// Reads the table once and determines its columns. Of more than kMaxCsvCategories classes of the
// target, kListed refuses the first one above, and kHashed omits all above.
Result<CsvColumns> find_columns(const NamedBytes& file, const CsvOptions& options,
                                Categories categories = Categories::kListed);

// kCorrupt for a field of `column` with wrong content; the message has its line and text.
Error bad_field(const NamedBytes& file, const CsvColumn& column, const CsvField& field,
                const std::string& expected);

// kInvalid for a file whose first row has text, but no name of a column of a trained table.
Error no_such_columns(const NamedBytes& file, const CsvColumns& table,
                      const std::vector<CsvField>& first, bool needs_target);

}  // namespace tally::data
