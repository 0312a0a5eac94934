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

// A field without its quotes and the spaces around it, and where it begins in the file.
struct CsvField {
  std::string text;
  std::uint64_t offset = 0;
};

// Reads a table row by row. Fields are separated by the commas, tabs or semicolons that the first
// line has most of; a field in double quotes may hold them, line ends, and quotes written twice.
// Empty lines are skipped.
class CsvCursor final {
 public:
  // Both outlive the cursor.
  CsvCursor(std::span<const std::byte> bytes, const std::string& name);

  // The next row; false at the end. kCorrupt, with the offset, where quotes do not end, something
  // follows them, or a row has more than kMaxCsvFields.
  Result<bool> next(std::vector<CsvField>& row);

 private:
  Result<void> read_field(CsvField& field);

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  char separator_ = ',';
};

}  // namespace tally::data
