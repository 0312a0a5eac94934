#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/csv.h"

namespace tally::data {

struct CsvColumnFacts {
  std::string name;  // without names: its number, from 1
  bool numeric = true;
  std::size_t texts = 0;      // distinct texts of a column that is not numeric
  std::uint64_t missing = 0;  // rows without a value
};

// How open_csv() reads the columns of a table.
struct CsvFacts {
  bool has_names = false;
  std::size_t target = 0;  // index of the column
  std::uint64_t rows = 0;
  std::vector<CsvColumnFacts> columns;
};

// Reads the table once. Errors as of open_csv().
Result<CsvFacts> survey_csv(const std::filesystem::path& path, const CsvOptions& options);

// Returns one to three lines for the user, each after two spaces: a line if the columns have no
// names, the columns with their kinds, and a warning about columns without any value.
std::string describe(const CsvFacts& facts);

}  // namespace tally::data
