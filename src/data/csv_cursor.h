#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::data {

inline constexpr std::size_t kMaxCsvFields = 65536;

// A field without quotes and surrounding spaces, and its offset in the file.
struct CsvField {
  std::string text;
  std::uint64_t offset = 0;
};

// Reads a table row by row. The separator is the comma, tab or semicolon that is most frequent in
// the first line. A field in double quotes may contain separators, line ends, and quotes written
// twice. Empty lines are skipped.
class CsvCursor final {
 public:
  // Both arguments must outlive the cursor.
  CsvCursor(std::span<const std::byte> bytes, const std::string& name);

  // Reads the next row; false at the end. kCorrupt, with the line, if a quote is not closed, if
  // text follows a closing quote, if a field is not UTF-8, or if a row has more than kMaxCsvFields.
  Result<bool> next(std::vector<CsvField>& row);

 private:
  Result<void> read_field(CsvField& field);

  std::span<const std::byte> bytes_;
  std::string_view text_;  // the same
  const std::string& name_;
  std::size_t at_ = 0;
  char separator_ = ',';
};

}  // namespace tally::data
