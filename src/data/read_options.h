#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "data/csv.h"
#include "data/dataset.h"
#include "data/locate.h"
#include "data/text.h"

namespace tally::data {

// The fraction that is held out of data without a test part.
inline constexpr double kDefaultValidation = 0.1;

// How to read data whose files leave a choice. All workers of a job must use equal values.
struct ReadOptions {
  TextLevel level = TextLevel::kCharacter;
  // Tables: name or number (from 1) of the target column; empty: the last column.
  std::string target_column;
  CsvTarget target = CsvTarget::kAuto;
  // The fraction of the training part to hold out, in place of a test part; unset:
  // kDefaultValidation of data without a test part. Texts hold out their end; other data are chosen
  // by the seed.
  std::optional<double> validation;
  // Path of a file or folder of the same kind, which becomes the test part; empty: none.
  std::string test;
  // Processes of this host that hold the data at the same time, such as the workers of a job. Each
  // may use its share of the memory; the content of the data does not depend on it.
  int readers = 1;
};

// Returns locate() or locate_keyed(), which have this signature, with the test part that `read`
// selects. kInvalid if the options do not fit the kind of the data, or if `read.test` is of another
// kind.
using Locate = Result<Location> (*)(const std::string&, const std::filesystem::path&);
Result<Location> locate_parts(const std::string& name_or_path, const std::filesystem::path& cache,
                              const ReadOptions& read, Locate find = locate);

// kInvalid unless a model for `train` also takes the samples of `test`.
Result<void> check_parts(const Dataset& train, const Dataset& test);

// Returns one line on what a training on these parts learns from and what it is tested with:
// "13 features, target price (numbers); 10 % held out for the test".
std::string describe_parts(const Location& location, const ReadOptions& read, const Dataset& train);

}  // namespace tally::data
