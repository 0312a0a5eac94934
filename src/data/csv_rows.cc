#include "data/csv_rows.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "data/input_file.h"
#include "data/number.h"

namespace tally::data {
namespace {

// Finds the columns of a table in a file with names in its first row.
Result<FileColumns> columns_by_name(const NamedBytes& file, const CsvColumns& table,
                                    const std::vector<CsvField>& names, bool needs_target) {
  FileColumns columns{.has_names = true, .fields = names.size()};
  std::vector<std::string> absent;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const auto is_it = [&](const CsvField& field) { return field.text == table.columns[i].name; };
    const auto found = std::find_if(names.begin(), names.end(), is_it);
    columns.field_of.emplace_back();
    if (i == table.target && !needs_target) continue;  // not read, so it may be empty or unknown
    if (found == names.end()) {
      absent.push_back(table.columns[i].name);
      continue;
    }
    if (std::any_of(found + 1, names.end(), is_it))
      return invalid("{}: two columns have the name '{}'", file.name, found->text);
    columns.field_of.back() = static_cast<std::size_t>(found - names.begin());
  }
  if (absent.empty()) return columns;
  return invalid("{}: the model needs the column{} {}, which the first row does not name",
                 file.name, absent.size() == 1 ? "" : "s", fmt::join(absent, ", "));
}

}  // namespace

FileColumns same_columns(const CsvColumns& table) {
  FileColumns columns{.has_names = table.has_names, .fields = table.columns.size()};
  for (std::size_t i = 0; i < table.columns.size(); ++i) columns.field_of.emplace_back(i);
  return columns;
}

Result<FileColumns> find_table_columns(const NamedBytes& file, const CsvColumns& table,
                                       bool needs_target) {
  CsvCursor cursor(file.bytes, file.name);
  std::vector<CsvField> first;
  TALLY_TRY(const bool more, cursor.next(first));
  if (!more) return bad_line(file.bytes, file.name, 0, "a table", "an empty file");
  const bool has_names = std::none_of(first.begin(), first.end(),
                                      [](const CsvField& field) { return number_in(field.text); });
  const bool knows_one = std::any_of(first.begin(), first.end(), [&](const CsvField& field) {
    return std::any_of(table.columns.begin(), table.columns.end(),
                       [&](const CsvColumn& column) { return column.name == field.text; });
  });
  if (has_names && knows_one) return columns_by_name(file, table, first, needs_target);
  FileColumns columns = same_columns(table);
  columns.has_names = false;
  if (first.size() == columns.fields) {
    if (!needs_target) columns.field_of[table.target].reset();
    return columns;
  }
  const bool fits = first.size() + 1 == columns.fields && !needs_target;
  if (!fits && has_names) return no_such_columns(file, table, first, needs_target);
  if (!fits)
    return bad_line(file.bytes, file.name, 0,
                    fmt::format("a row of {} fields, or of column names", columns.fields),
                    fmt::format("{}", first.size()));
  --columns.fields;
  columns.field_of[table.target].reset();
  for (std::size_t i = table.target + 1; i < columns.field_of.size(); ++i)
    columns.field_of[i] = i - 1;
  return columns;
}

Result<void> check_names(const NamedBytes& file, const CsvColumns& table) {
  CsvCursor cursor(file.bytes, file.name);
  std::vector<CsvField> row;
  TALLY_TRY(const bool more, cursor.next(row));
  if (!more || !table.has_names) return {};
  for (std::size_t i = 0; i < std::min(row.size(), table.columns.size()); ++i)
    if (row[i].text != table.columns[i].name)
      return bad_line(file.bytes, file.name, row[i].offset,
                      fmt::format("the name of column {} of the training part, {}", i + 1,
                                  shown(table.columns[i].name)),
                      shown(row[i].text));
  if (row.size() == table.columns.size()) return {};
  return bad_line(file.bytes, file.name, row[0].offset,
                  fmt::format("the {} columns of the training part", table.columns.size()),
                  fmt::format("{}", row.size()));
}

Result<void> each_row(const NamedBytes& file, const FileColumns& columns,
                      const std::function<Result<void>(const std::vector<CsvField>&)>& use) {
  CsvCursor cursor(file.bytes, file.name);
  std::vector<CsvField> row;
  TALLY_TRY(bool more, cursor.next(row));
  if (columns.has_names) {
    TALLY_TRY(more, cursor.next(row));
  }
  if (!more)
    return bad_line(file.bytes, file.name, file.bytes.size(), "a row of values",
                    "the end of the file");
  while (more) {
    if (row.size() != columns.fields)
      return bad_line(file.bytes, file.name, row[0].offset,
                      fmt::format("a row of {} fields", columns.fields),
                      fmt::format("{}", row.size()));
    TALLY_TRY(use(row));
    TALLY_TRY(more, cursor.next(row));
  }
  return {};
}

std::optional<std::size_t> category_of(const CsvColumn& column, const std::string& text) {
  const std::vector<std::string>& texts = column.categories;
  const auto found = std::find(texts.begin(), texts.end(), text);
  if (found == texts.end()) return std::nullopt;
  return static_cast<std::size_t>(found - texts.begin());
}

Result<float> target_of(const NamedBytes& file, const CsvColumns& table,
                        std::optional<std::size_t> field, const std::vector<CsvField>& row) {
  if (!field) return 0.0F;
  const CsvColumn& column = table.columns[table.target];
  const CsvField& found = row[*field];
  if (is_missing(found.text)) return bad_field(file, column, found, "a target");
  if (table.target_is_class) {
    if (const auto label = category_of(column, found.text)) return static_cast<float>(*label);
    return bad_field(
        file, column, found,
        fmt::format("one of the {} classes of the training part", column.categories.size()));
  }
  if (const auto value = number_in(found.text)) return static_cast<float>(*value);
  return bad_field(file, column, found, "a number");
}

}  // namespace tally::data
