#include "data/keyed_tables.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.h"
#include "data/csv_cursor.h"
#include "data/libsvm.h"
#include "data/number.h"

namespace tally::data {
namespace {

constexpr std::size_t kCriteoFields = 40;
constexpr std::size_t kAdultFields = 15;

bool has(const std::vector<CsvField>& row, std::string_view text) {
  return std::any_of(row.begin(), row.end(),
                     [text](const CsvField& field) { return field.text == text; });
}

bool is_adult(const std::vector<CsvField>& row) {
  return row.size() == kAdultFields && number_in(row[0].text) && !number_in(row[1].text) &&
         number_in(row[2].text) && row[14].text.find("50K") != std::string::npos;
}

}  // namespace

std::optional<TableFormat> recognise_table(std::string_view beginning) {
  if (looks_like_libsvm(beginning)) return TableFormat::kLibsvm;
  if (beginning.rfind("|1x3", 0) == 0) return TableFormat::kAdult;
  const std::string_view line = beginning.substr(0, beginning.find('\n'));
  const std::string name = "the first line";
  CsvCursor cursor(std::as_bytes(std::span(line)), name);
  std::vector<CsvField> row;
  if (const auto more = cursor.next(row); !more || !*more) return std::nullopt;
  if (has(row, "userId") && has(row, "movieId") && has(row, "rating"))
    return TableFormat::kMovieLens;
  if (has(row, "label") && has(row, "I1") && has(row, "C26")) return TableFormat::kCriteo;
  if (is_adult(row)) return TableFormat::kAdult;
  const bool tabs = line.find('\t') != std::string_view::npos;
  const bool labelled = row[0].text == "0" || row[0].text == "1";
  if (tabs && labelled && row.size() <= kCriteoFields) return TableFormat::kCriteo;
  return std::nullopt;
}

}  // namespace tally::data
