#include <array>
#include <cmath>

#include <fmt/format.h>

#include "data/csv_cursor.h"
#include "data/keyed_columns.h"
#include "data/keyed_tables.h"
#include "data/number.h"

namespace tally::data {
namespace {

enum class Column : std::uint8_t {
  kCategory,
  kNumber,  // few distinct values
  kWeight,  // sampling weight: number of people per row, rarely equal in two rows
};

struct ColumnFacts {
  std::string_view name;
  Column kind = Column::kCategory;
};

constexpr std::array kColumns{ColumnFacts{"age", Column::kNumber},
                              ColumnFacts{"workclass"},
                              ColumnFacts{"fnlwgt", Column::kWeight},
                              ColumnFacts{"education"},
                              ColumnFacts{"education-num", Column::kNumber},
                              ColumnFacts{"marital-status"},
                              ColumnFacts{"occupation"},
                              ColumnFacts{"relationship"},
                              ColumnFacts{"race"},
                              ColumnFacts{"sex"},
                              ColumnFacts{"capital-gain", Column::kNumber},
                              ColumnFacts{"capital-loss", Column::kNumber},
                              ColumnFacts{"hours-per-week", Column::kNumber},
                              ColumnFacts{"native-country"}};

constexpr std::string_view kMissing = "?";
// Divisor that scales the logarithms of this dataset to about 0 to 1.
constexpr double kLogarithms = 12;

std::optional<bool> label_in(std::string_view text) {
  if (!text.empty() && text.back() == '.') text.remove_suffix(1);
  if (text == "<=50K") return false;
  if (text == ">50K") return true;
  return std::nullopt;
}

Result<void> add_row(FileBytes bytes, const std::string& name, const std::vector<CsvField>& row,
                     KeyedRows& rows) {
  if (row.size() != kColumns.size() + 1)
    return bad_line(bytes, name, row[0].offset, fmt::format("{} fields", kColumns.size() + 1),
                    fmt::format("{}", row.size()));
  const auto label = label_in(row.back().text);
  if (!label)
    return bad_line(bytes, name, row.back().offset, "a label <=50K or >50K",
                    shown(row.back().text));
  std::array<std::optional<double>, kColumns.size()> numbers;
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    const std::string& text = row[i].text;
    if (text.empty() || text == kMissing) {
      rows.add_empty();
      continue;
    }
    if (kColumns[i].kind == Column::kCategory) {
      rows.add(key_of(kColumns[i].name, text));
      continue;
    }
    numbers[i] = number_in(text);
    if (!numbers[i] || *numbers[i] < 0)
      return bad_line(bytes, name, row[i].offset,
                      fmt::format("a number from 0 as {}", kColumns[i].name), shown(text));
    rows.add(kColumns[i].kind == Column::kNumber
                 ? key_of(kColumns[i].name, text)
                 : key_of(kColumns[i].name, fmt::format("{}", log2_bucket(*numbers[i]))));
  }
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    if (kColumns[i].kind != Column::kNumber) continue;
    if (numbers[i])
      rows.add(key_of(value_field_of(kColumns[i].name), ""),
               static_cast<float>(std::log1p(*numbers[i]) / kLogarithms));
    else
      rows.add_empty();
  }
  rows.end_row(*label);
  return {};
}

}  // namespace

Result<KeyedRows> parse_adult(FileBytes bytes, const std::string& name) {
  KeyedRows rows{.classes = {"<=50K", ">50K"}};
  for (const ColumnFacts& column : kColumns) rows.encoding.fields.emplace_back(column.name);
  for (const ColumnFacts& column : kColumns)
    if (column.kind == Column::kNumber) rows.encoding.fields.push_back(value_field_of(column.name));
  CsvCursor cursor(bytes, name);
  std::vector<CsvField> row;
  TALLY_TRY(bool more, cursor.next(row));
  while (more) {
    if (row[0].text.empty() || row[0].text.front() != '|')
      TALLY_TRY(add_row(bytes, name, row, rows));
    if (rows.keys.size() > kMaxKeyedEntries)
      return bad_line(bytes, name, row[0].offset,
                      fmt::format("{} values at most", kMaxKeyedEntries), "more");
    TALLY_TRY(more, cursor.next(row));
  }
  if (rows.size() == 0) return bad_line(bytes, name, bytes.size(), "a row", "the end of the file");
  return rows;
}

}  // namespace tally::data
