#include "data/csv_columns.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/memory_limit.h"
#include "base/nearest_word.h"
#include "base/units.h"
#include "data/input_file.h"
#include "data/number.h"

namespace tally::data {
namespace {

constexpr std::array<std::string_view, 8> kMissingWords{"",    "NA",   "N/A",  "NaN",
                                                        "nan", "null", "NULL", "?"};

Result<std::size_t> target_among(const std::vector<CsvColumn>& columns, const std::string& wanted,
                                 const std::string& name) {
  if (wanted.empty()) return columns.size() - 1;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].name == wanted) return i;
  std::size_t number = 0;
  const auto [end, failure] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  if (failure == std::errc() && end == wanted.data() + wanted.size() && number >= 1 &&
      number <= columns.size())
    return number - 1;
  constexpr std::size_t kMost = 20;
  std::vector<std::string_view> names;
  for (const CsvColumn& column : columns) names.push_back(column.name);
  const std::string guess = did_you_mean(wanted, names);
  if (names.size() > kMost) {
    names.resize(kMost);
    names.emplace_back("...");
  }
  return invalid("{}: no column {}{} (columns: {})", name, wanted, guess, fmt::join(names, ", "));
}

// Adds the field's text to the categories of its column.
Result<void> note_category(const NamedBytes& file, CsvColumn& column, const CsvField& field) {
  auto& known = column.categories;
  const auto at = std::lower_bound(known.begin(), known.end(), field.text);
  if (at != known.end() && *at == field.text) return {};
  if (known.size() == kMaxCsvCategories)
    return bad_field(file, column, field,
                     fmt::format("at most {} different texts", kMaxCsvCategories));
  known.insert(at, field.text);
  return {};
}

// True for "2,5" and "1,234.5", which are numbers in another notation and not names of categories.
bool has_decimal_comma(std::string text) {
  const auto comma = std::remove(text.begin(), text.end(), ',');
  if (comma == text.end()) return false;
  text.erase(comma, text.end());
  return number_in(text).has_value();
}

struct FieldRole {
  bool is_target = false;
  bool by_default = false;  // no option names the target
  bool as_class = false;    // numbers are names of classes
  Categories categories = Categories::kListed;
  std::size_t number = 0;  // of the column, from 1
};

Result<void> note_field(const NamedBytes& file, const FieldRole& role, CsvColumn& column,
                        const CsvField& field) {
  if (is_missing(field.text)) {
    if (!role.is_target || !role.by_default) return {};
    Error error = bad_field(file, column, field, "a target");
    error.message += "; the last column is the target unless --target names another";
    return error;
  }
  const bool number = number_in(field.text).has_value();
  if (!number && !role.as_class && has_decimal_comma(field.text))
    return bad_field(file, column, field, "a number with a decimal point");
  if (!column.known) column.numeric = number && !role.as_class;
  column.known = true;
  if (column.numeric) return {};
  if (role.categories == Categories::kHashed) {
    const bool listed = role.is_target && column.categories.size() < kMaxCsvCategories;
    return listed ? note_category(file, column, field) : Result<void>();
  }
  auto noted = note_category(file, column, field);
  if (!noted && !role.is_target)
    noted.error().message += fmt::format(
        "; remove column {} (column {}) if it identifies rows; for a target of two classes, "
        "logistic, widedeep and deepfm read it as keys",
        column.name, role.number);
  return noted;
}

// Sorts numerically if all texts are numbers.
void sort_as_numbers(std::vector<std::string>& texts) {
  const bool numbers = std::all_of(texts.begin(), texts.end(),
                                   [](const auto& text) { return number_in(text).has_value(); });
  if (!numbers) return;
  std::sort(texts.begin(), texts.end(),
            [](const auto& a, const auto& b) { return *number_in(a) < *number_in(b); });
}

Result<void> number_features(const NamedBytes& file, CsvColumns& table) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (i == table.target) continue;
    table.columns[i].first_feature = table.features;
    table.features += table.columns[i].numeric ? 1 : table.columns[i].categories.size();
  }
  if (table.features >= 1 && table.features <= kMaxCsvFeatures) return {};
  return invalid("{}: {} features besides the target {}, expected 1 to {}", file.name,
                 table.features, table.columns[table.target].name, kMaxCsvFeatures);
}

// The reader holds all rows twice while it divides them into parts. One row of a few bytes can
// become thousands of features.
Result<void> check_memory(const NamedBytes& file, const CsvColumns& table, int readers) {
  const std::uint64_t bytes = 2 * sizeof(float) * table.rows * table.features;
  if (bytes <= usable_memory_bytes(readers) / 2) return {};
  return make_error(ErrorCode::kExhausted,
                    "{}: {} rows of {} features need {}, more than {}; leave out text columns with "
                    "many different values",
                    file.name, table.rows, table.features, format_bytes(bytes),
                    memory_share_text("half", readers));
}

}  // namespace

std::vector<std::string> missing_words() { return {kMissingWords.begin(), kMissingWords.end()}; }

bool is_missing(const std::string& text) {
  return std::find(kMissingWords.begin(), kMissingWords.end(), text) != kMissingWords.end();
}

Error bad_field(const NamedBytes& file, const CsvColumn& column, const CsvField& field,
                const std::string& expected) {
  return bad_line(file.bytes, file.name, field.offset,
                  fmt::format("{} in column {}", expected, column.name), shown(field.text));
}

Result<CsvColumns> find_columns(const NamedBytes& file, const CsvOptions& options,
                                Categories categories) {
  CsvCursor cursor(file.bytes, file.name);
  std::vector<CsvField> row;
  TALLY_TRY(bool more, cursor.next(row));
  if (!more) return bad_line(file.bytes, file.name, 0, "a table", "an empty file");
  CsvColumns table;
  table.has_names = std::none_of(row.begin(), row.end(), [](const CsvField& field) {
    return number_in(field.text).has_value();
  });
  // A single column may lack a name; a row of missing values only has no names.
  table.has_names =
      table.has_names && !std::all_of(row.begin(), row.end(),
                                      [](const CsvField& field) { return is_missing(field.text); });
  for (std::size_t i = 0; i < row.size(); ++i)
    table.columns.push_back({.name = table.has_names ? row[i].text : fmt::format("{}", i + 1)});
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (table.columns[k].name == table.columns[i].name)
        return invalid("{}: columns {} and {} have the same name '{}': give them different names",
                       file.name, k + 1, i + 1, table.columns[i].name);
  TALLY_TRY(table.target, target_among(table.columns, options.target_column, file.name));
  if (table.has_names) {
    TALLY_TRY(more, cursor.next(row));
  }
  std::vector<FieldRole> roles;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const bool is_target = i == table.target;
    roles.push_back({.is_target = is_target,
                     .by_default = options.target_column.empty(),
                     .as_class = is_target && options.target == CsvTarget::kClass,
                     .categories = categories,
                     .number = i + 1});
  }
  while (more) {
    if (row.size() != table.columns.size())
      return bad_line(file.bytes, file.name, row[0].offset,
                      fmt::format("a row of {} fields", table.columns.size()),
                      fmt::format("{}", row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      TALLY_TRY(note_field(file, roles[i], table.columns[i], row[i]));
    ++table.rows;
    TALLY_TRY(more, cursor.next(row));
  }
  CsvColumn& target = table.columns[table.target];
  table.target_is_class = !target.numeric;
  sort_as_numbers(target.categories);
  if (categories == Categories::kHashed) return table;
  TALLY_TRY(number_features(file, table));
  TALLY_TRY(check_memory(file, table, options.readers));
  return table;
}

Error no_such_columns(const NamedBytes& file, const CsvColumns& table,
                      const std::vector<CsvField>& first, bool needs_target) {
  constexpr std::size_t kMostColumns = 20;  // that are named
  std::vector<std::string> needed;
  for (std::size_t i = 0; i < std::min(table.columns.size(), kMostColumns); ++i)
    if (i != table.target || needs_target) needed.push_back(table.columns[i].name);
  if (table.columns.size() > kMostColumns) needed.emplace_back("...");
  std::vector<std::string> found;
  for (std::size_t i = 0; i < std::min(first.size(), kMostColumns); ++i)
    found.push_back(first[i].text);
  if (first.size() > kMostColumns) found.emplace_back("...");
  return invalid("{}: the model needs the column{} {}, and the first row has {}", file.name,
                 needed.size() == 1 ? "" : "s", fmt::join(needed, ", "), fmt::join(found, ", "));
}

}  // namespace tally::data
