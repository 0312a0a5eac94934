#include <array>

#include <fmt/format.h>

#include "data/csv_cursor.h"
#include "data/keyed_tables.h"
#include "data/number.h"

namespace tally::data {
namespace {

constexpr std::size_t kCounts = 13;
constexpr std::size_t kFields = 40;  // label included, as field 0
constexpr std::size_t kMostColumns = 256;

// "label", "I1", ..., "I13", "C1", ..., "C26".
std::vector<std::string> field_names() {
  std::vector<std::string> names = {"label"};
  for (std::size_t i = 1; i <= kCounts; ++i) names.push_back(fmt::format("I{}", i));
  for (std::size_t i = 1; i < kFields - kCounts; ++i) names.push_back(fmt::format("C{}", i));
  return names;
}

bool is_category(std::string_view text) {
  return text.size() <= 16 && text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
}

// The columns of one file; creates its error messages.
class CriteoFile final {
 public:
  CriteoFile(FileBytes bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  // Finds the column of each field. True if `row` is a header; without a header the fields are in
  // standard order.
  Result<bool> find_columns(const std::vector<CsvField>& row) {
    const bool named = row[0].text == "label" || !number_in(row[0].text);
    for (std::size_t field = 0; field < kFields; ++field) {
      column_[field] = field;
      if (!named) continue;
      std::size_t at = 0;
      while (at < row.size() && row[at].text != names_[field]) ++at;
      if (at == row.size())
        return bad_line(bytes_, name_, row[0].offset, fmt::format("a column {}", names_[field]),
                        fmt::format("{} columns without it", row.size()));
      column_[field] = at;
    }
    columns_ = named ? row.size() : kFields;
    return named;
  }

  Result<void> add(const std::vector<CsvField>& row, KeyedRows& rows) const {
    if (row.size() > columns_ || row.size() > kMostColumns)
      return bad_line(bytes_, name_, row[0].offset, fmt::format("up to {} fields", columns_),
                      fmt::format("{}", row.size()));
    const std::string_view label = text_of(row, 0);
    if (label != "0" && label != "1")
      return bad_line(bytes_, name_, row[0].offset, "a label 0 or 1", shown(label));
    for (std::size_t field = 1; field < kFields; ++field) TALLY_TRY(add_field(row, field, rows));
    rows.end_row(label == "1");
    return {};
  }

  std::vector<std::string> fields() const { return {names_.begin() + 1, names_.end()}; }

 private:
  // Empty if the field is missing or omitted.
  std::string_view text_of(const std::vector<CsvField>& row, std::size_t field) const {
    return column_[field] < row.size() ? std::string_view(row[column_[field]].text) : "";
  }

  Result<void> add_field(const std::vector<CsvField>& row, std::size_t field,
                         KeyedRows& rows) const {
    const std::string_view text = text_of(row, field);
    if (text.empty()) {
      rows.add_empty();
      return {};
    }
    const std::uint64_t offset = row[column_[field]].offset;
    if (field > kCounts) {
      if (!is_category(text))
        return bad_line(bytes_, name_, offset,
                        fmt::format("a category of hexadecimal digits as {}", names_[field]),
                        shown(text));
      rows.add(key_of(names_[field], text));
      return {};
    }
    const auto count = number_in(text);
    if (!count)
      return bad_line(bytes_, name_, offset, fmt::format("a number as {}", names_[field]),
                      shown(text));
    rows.add(key_of(names_[field], fmt::format("{}", log2_bucket(*count))));
    return {};
  }

  const FileBytes bytes_;
  const std::string& name_;
  const std::vector<std::string> names_ = field_names();
  std::array<std::size_t, kFields> column_{};
  std::size_t columns_ = kFields;
};

}  // namespace

Result<KeyedRows> parse_criteo(FileBytes bytes, const std::string& name) {
  CriteoFile file(bytes, name);
  CsvCursor cursor(bytes, name);
  std::vector<CsvField> row;
  TALLY_TRY(bool more, cursor.next(row));
  KeyedRows rows{.encoding = {.fields = file.fields()}, .classes = {"no click", "click"}};
  if (more) {
    TALLY_TRY(const bool named, file.find_columns(row));
    if (named) {
      TALLY_TRY(more, cursor.next(row));
    }
  }
  while (more) {
    TALLY_TRY(file.add(row, rows));
    if (rows.keys.size() > kMaxKeyedEntries)
      return bad_line(bytes, name, row[0].offset,
                      fmt::format("{} values at most", kMaxKeyedEntries), "more");
    TALLY_TRY(more, cursor.next(row));
  }
  if (rows.size() == 0) return bad_line(bytes, name, bytes.size(), "a row", "the end of the file");
  return rows;
}

}  // namespace tally::data
