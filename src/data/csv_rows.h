#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/csv_columns.h"
#include "data/csv_cursor.h"

namespace tally::data {

// Where the rows of a file have the columns of a table.
struct FileColumns {
  bool has_names = false;                            // the first row has the column names
  std::size_t fields = 0;                            // of each row
  std::vector<std::optional<std::size_t>> field_of;  // by column; only the target may be absent
};

// The columns of a file with the same columns as the table.
FileColumns same_columns(const CsvColumns& table);

// Finds the columns of a table by name, or by position in a file without names. A file without
// names has all columns, or all but the target if it is not needed. kInvalid or kCorrupt for a file
// without the needed columns.
Result<FileColumns> find_table_columns(const NamedBytes& file, const CsvColumns& table,
                                       bool needs_target);

// kCorrupt unless the first row of a test file has the names of the training file, in the same
// order.
Result<void> check_names(const NamedBytes& file, const CsvColumns& table);

// Calls `use` with each row, without the names, until it returns an error. kCorrupt for a row with
// another number of fields, and for a file without rows.
Result<void> each_row(const NamedBytes& file, const FileColumns& columns,
                      const std::function<Result<void>(const std::vector<CsvField>&)>& use);

// The index of a text among the categories of its column; nullopt if it is none of them.
std::optional<std::size_t> category_of(const CsvColumn& column, const std::string& text);

// The target of a row: the value, or the label of the class; 0 if `field`, its place, is absent.
// kCorrupt for a missing value, an unknown class, or text in place of a number.
Result<float> target_of(const NamedBytes& file, const CsvColumns& table,
                        std::optional<std::size_t> field, const std::vector<CsvField>& row);

}  // namespace tally::data
