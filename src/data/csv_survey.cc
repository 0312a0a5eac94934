#include "data/csv_survey.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/csv_columns.h"

namespace tally::data {
namespace {

constexpr std::size_t kMostDescribed = 20;  // columns

std::string column_text(const CsvFacts& facts, std::size_t index) {
  const CsvColumnFacts& column = facts.columns[index];
  std::string text = column.numeric ? fmt::format("{} number", column.name)
                                    : fmt::format("{} {} text{}", column.name, column.texts,
                                                  column.texts == 1 ? "" : "s");
  if (column.missing > 0) text += fmt::format(" ({} missing)", column.missing);
  return index == facts.target ? text + " = target" : text;
}

}  // namespace

Result<CsvFacts> survey_csv(const std::filesystem::path& path, const CsvOptions& options) {
  TALLY_TRY(const Bytes bytes, read_file(path));
  const NamedBytes file{bytes, path.string()};
  TALLY_TRY(const CsvColumns table, find_columns(file, options));
  CsvFacts facts{.has_names = table.has_names, .target = table.target, .rows = table.rows};
  for (const CsvColumn& column : table.columns)
    facts.columns.push_back(
        {.name = column.name, .numeric = column.numeric, .texts = column.categories.size()});
  CsvCursor cursor(file.bytes, file.name);
  std::vector<CsvField> row;
  TALLY_TRY(bool more, cursor.next(row));
  if (facts.has_names) {
    TALLY_TRY(more, cursor.next(row));
  }
  while (more) {
    for (std::size_t i = 0; i < row.size(); ++i)
      if (is_missing(row[i].text)) ++facts.columns[i].missing;
    TALLY_TRY(more, cursor.next(row));
  }
  return facts;
}

std::string describe(const CsvFacts& facts) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(facts.columns.size(), kMostDescribed); ++i)
    parts.push_back(column_text(facts, i));
  if (facts.columns.size() > kMostDescribed) {
    parts.push_back(fmt::format("{} more", facts.columns.size() - kMostDescribed));
    if (facts.target >= kMostDescribed) parts.push_back(column_text(facts, facts.target));
  }
  std::string text;
  if (!facts.has_names)
    text += "  names     none, for the first row has numbers: columns are named 1, 2, ...\n";
  text += fmt::format("  columns   {}\n", fmt::join(parts, ", "));
  std::vector<std::string> empty;
  for (const CsvColumnFacts& column : facts.columns)
    if (column.missing == facts.rows && facts.rows > 0) empty.push_back(column.name);
  if (!empty.empty())
    text += fmt::format("  warning   no value in column{} {}\n", empty.size() == 1 ? "" : "s",
                        fmt::join(empty, ", "));
  return text;
}

}  // namespace tally::data
