// find_columns() determines which columns are numeric. read_cells() then turns texts into keys and
// keeps numbers. measured() decides from the training part how numbers become keys and values, and
// encoded() makes the rows. A table that is opened for a trained model takes the result of
// measured() from the model's preprocessing instead.
#include "data/keyed_columns.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/memory_limit.h"
#include "base/units.h"
#include "data/csv_columns.h"
#include "data/csv_rows.h"
#include "data/number.h"

namespace tally::data {
namespace {

// The fields of all rows but the target, one row after the other: the key of a text, or the bits of
// a number. Missing: kNoKey, or NaN.
struct Cells {
  std::vector<std::int64_t> cells;
  std::vector<std::uint8_t> labels;

  double number(std::size_t at) const { return std::bit_cast<double>(cells[at]); }
};

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

Result<std::int64_t> cell_of(const NamedBytes& file, const CsvColumn& column,
                             const CsvField& field) {
  const std::string text = trimmed(field.text);
  if (!column.numeric) return is_missing(text) ? kNoKey : key_of(column.name, text);
  const auto number = number_in(text);
  if (!number && !is_missing(text)) return bad_field(file, column, field, "a number");
  return std::bit_cast<std::int64_t>(number.value_or(std::numeric_limits<double>::quiet_NaN()));
}

Result<Cells> read_cells(const NamedBytes& file, const CsvColumns& table,
                         const FileColumns& columns) {
  Cells rows;
  const auto target = columns.field_of[table.target];
  TALLY_TRY(each_row(file, columns, [&](const std::vector<CsvField>& row) -> Result<void> {
    TALLY_TRY(const float label, target_of(file, table, target, row));
    rows.labels.push_back(label != 0 ? 1 : 0);
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (i == table.target) continue;
      TALLY_TRY(rows.cells.emplace_back(),
                cell_of(file, table.columns[i], row[columns.field_of[i].value()]));
    }
    return {};
  }));
  return rows;
}

bool is_whole(double number) {
  return std::abs(number) <= kMostWhole && number == std::floor(number);
}

// `numbers` are sorted.
bool are_categories(const std::vector<double>& numbers) {
  if (!std::all_of(numbers.begin(), numbers.end(), is_whole)) return false;
  std::size_t distinct = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (i == 0 || numbers[i] != numbers[i - 1]) ++distinct;
  return distinct * kWholeRepeats <= numbers.size();
}

// `numbers` are sorted.
std::vector<double> bounds_of(const std::vector<double>& numbers) {
  std::vector<double> bounds;
  for (std::size_t i = 1; i < kBuckets && !numbers.empty(); ++i) {
    const double bound = numbers[i * numbers.size() / kBuckets];
    if (bound > (bounds.empty() ? numbers.front() : bounds.back())) bounds.push_back(bound);
  }
  return bounds;
}

// `numbers` are those of the training part, without missing ones.
void measure_numbers(std::vector<double> numbers, KeyedColumn& column) {
  double squares = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    // Running mean and squares (Welford 1962), which keep the precision of large values.
    const double step = numbers[i] - column.mean;
    column.mean += step / static_cast<double>(i + 1);
    squares += step * (numbers[i] - column.mean);
  }
  if (squares > 0) column.deviation = std::sqrt(squares / static_cast<double>(numbers.size()));
  std::sort(numbers.begin(), numbers.end());
  const bool whole = !numbers.empty() && are_categories(numbers);
  column.kind = whole ? KeyedColumn::Kind::kWhole : KeyedColumn::Kind::kNumber;
  if (!whole) column.bounds = bounds_of(numbers);
}

std::vector<std::string> fields_of(const std::vector<KeyedColumn>& columns, std::size_t target) {
  std::vector<std::string> fields;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i == target) continue;
    fields.push_back(columns[i].name);
    if (columns[i].kind != KeyedColumn::Kind::kText)
      fields.push_back(value_field_of(columns[i].name));
  }
  return fields;
}

// `training` are the indices of the training part in `rows`.
KeyedEncoding measured(const CsvColumns& table, const Cells& rows,
                       const std::vector<std::uint64_t>& training) {
  KeyedEncoding encoding{.target = table.target};
  const std::size_t width = table.columns.size() - 1;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    KeyedColumn& column = encoding.columns.emplace_back();
    column.name = table.columns[i].name;
    if (i == table.target || !table.columns[i].numeric) continue;
    const std::size_t place = i - (i > table.target ? 1 : 0);
    std::vector<double> numbers;
    for (const std::uint64_t row : training)
      if (const double number = rows.number(row * width + place); !std::isnan(number))
        numbers.push_back(number);
    measure_numbers(std::move(numbers), column);
  }
  encoding.fields = fields_of(encoding.columns, encoding.target);
  return encoding;
}

// Turns the cells of one column into entries of rows.
class ColumnKeys final {
 public:
  explicit ColumnKeys(const KeyedColumn& column)
      : column_(column), value_key_(key_of(value_field_of(column.name), "")) {}

  void add(std::int64_t cell, KeyedRows& rows) const {
    if (column_.kind == KeyedColumn::Kind::kText) {
      rows.add(cell, cell == kNoKey ? 0.0F : 1.0F);
      return;
    }
    const auto number = std::bit_cast<double>(cell);
    const bool missing = std::isnan(number);
    if (missing || (column_.kind == KeyedColumn::Kind::kWhole && !is_whole(number)))
      rows.add_empty();
    else
      rows.add(key_of(column_.name, category_of_number(number)));
    if (missing)
      rows.add_empty();
    else
      rows.add(value_key_,
               static_cast<float>(std::clamp((number - column_.mean) / column_.deviation,
                                             -kMostDeviations, kMostDeviations)));
  }

 private:
  std::string category_of_number(double number) const {
    if (column_.kind == KeyedColumn::Kind::kWhole)
      return fmt::format("{}", static_cast<std::int64_t>(number));
    const auto above = std::upper_bound(column_.bounds.begin(), column_.bounds.end(), number);
    return fmt::format("{}", above - column_.bounds.begin());
  }

  const KeyedColumn& column_;
  const std::int64_t value_key_;
};

KeyedRows encoded(const Cells& cells, const std::vector<std::uint64_t>& indices,
                  const KeyedEncoding& encoding, const std::vector<std::string>& classes) {
  KeyedRows rows{.encoding = encoding, .classes = classes};
  std::vector<ColumnKeys> columns;
  for (std::size_t i = 0; i < encoding.columns.size(); ++i)
    if (i != encoding.target) columns.emplace_back(encoding.columns[i]);
  for (const std::uint64_t row : indices) {
    for (std::size_t i = 0; i < columns.size(); ++i)
      columns[i].add(cells.cells[row * columns.size() + i], rows);
    rows.end_row(cells.labels[row] != 0);
  }
  return rows;
}

std::vector<std::uint64_t> all_of(const Cells& rows) {
  return part_of(rows.labels.size(), {.validation = 0});
}

Result<void> check_two_classes(const NamedBytes& file, const CsvColumn& target) {
  if (target.categories.size() == 2) return {};
  constexpr std::size_t kMost = 5;
  const std::size_t count = target.categories.size();
  std::vector<std::string> shown_classes;
  for (std::size_t i = 0; i < std::min(count, kMost); ++i)
    shown_classes.push_back(shown(target.categories[i]));
  if (count > kMost) shown_classes.emplace_back("...");
  return invalid(
      "{}: column {} has {}{} class{} ({}), expected two: --target names another column, and mlp "
      "takes any number of classes",
      file.name, target.name, count == kMaxCsvCategories ? "at least " : "", count,
      count == 1 ? "" : "es", fmt::join(shown_classes, ", "));
}

// The reader holds the cells of the training file and the rows of keys of one part. A growing
// vector takes up to twice its content. A test file is not counted: its number of rows is not
// known yet.
Result<void> check_keyed_memory(const NamedBytes& file, const CsvColumns& table, int readers) {
  const std::uint64_t cells = table.columns.size() - 1;
  std::uint64_t slots = 0;
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (i != table.target) slots += table.columns[i].numeric ? 2 : 1;
  const std::uint64_t row_bytes =
      cells * sizeof(std::int64_t) + slots * (sizeof(std::int64_t) + sizeof(float));
  const std::uint64_t bytes = 2 * table.rows * row_bytes;
  if (table.rows * slots > kMaxKeyedEntries)
    return invalid("{}: {} rows of {} slots, expected {} entries at most; leave out columns",
                   file.name, table.rows, slots, kMaxKeyedEntries);
  if (bytes <= usable_memory_bytes(readers) / 2) return {};
  return make_error(ErrorCode::kExhausted,
                    "{}: {} rows of {} slots need {}, more than {}; leave out columns", file.name,
                    table.rows, slots, format_bytes(bytes), memory_share_text("half", readers));
}

}  // namespace

std::string value_field_of(std::string_view column) { return fmt::format("{} value", column); }

Result<KeyedRows> read_keyed_columns(const NamedBytes& train, const NamedBytes* test,
                                     const KeyedColumnsOptions& options) {
  TALLY_TRY(
      const CsvColumns table,
      find_columns(train, {.target_column = options.target_column, .target = CsvTarget::kClass},
                   Categories::kHashed));
  if (table.columns.size() < 2)
    return invalid("{}: no column besides the target {}", train.name, table.columns[0].name);
  TALLY_TRY(check_keyed_memory(train, table, options.readers));
  const FileColumns columns = same_columns(table);
  const CsvColumn& target = table.columns[table.target];
  // A damaged row is reported before too few classes, but not before too many.
  if (target.categories.size() > 2) TALLY_TRY(check_two_classes(train, target));
  TALLY_TRY(const Cells training, read_cells(train, table, columns));
  TALLY_TRY(check_two_classes(train, target));
  if (test == nullptr) {
    Split split = options.split;
    const auto wanted = part_of(training.labels.size(), split);
    split.train = true;
    const auto measured_rows = part_of(training.labels.size(), split);
    return encoded(training, wanted, measured(table, training, measured_rows), target.categories);
  }
  TALLY_TRY(check_names(*test, table));
  TALLY_TRY(const Cells held_out, read_cells(*test, table, columns));
  const KeyedEncoding encoding = measured(table, training, all_of(training));
  const Cells& wanted = options.split.train ? training : held_out;
  return encoded(wanted, all_of(wanted), encoding, target.categories);
}

Result<KeyedRows> read_keyed_columns_like(const NamedBytes& file, const KeyedEncoding& encoding,
                                          const std::vector<std::string>& classes,
                                          bool needs_target) {
  CsvColumns table{.target = encoding.target, .target_is_class = true};
  for (const KeyedColumn& column : encoding.columns)
    table.columns.push_back(
        {.name = column.name, .known = true, .numeric = column.kind != KeyedColumn::Kind::kText});
  table.columns[table.target].categories = classes;
  TALLY_TRY(const FileColumns columns, find_table_columns(file, table, needs_target));
  TALLY_TRY(const Cells rows, read_cells(file, table, columns));
  return encoded(rows, all_of(rows), encoding, classes);
}

}  // namespace tally::data
