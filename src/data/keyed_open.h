#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "data/keyed.h"
#include "data/locate.h"
#include "tally/error.h"

namespace tally::data {

// Finds a table (src/data/keyed_tables.h) or sparse vectors in libsvm format: a catalog name, a
// file, or a folder with ratings.csv, adult.data, or train.txt, train.tsv, train.csv or
// train.libsvm, optionally gzip-compressed. The test part is a file in the same folder: adult.test,
// a9a.t or test.csv. Criteo's test file has no labels and is ignored. kSystem if nothing is found,
// kInvalid if the format is not supported.
Result<Location> locate_keyed(const std::string& name_or_path, const std::filesystem::path& cache);

// Opens the part that `split.train` selects. With a test file the parts are the two files;
// otherwise `split` divides the rows. Both parts have the same slots and classes. kCorrupt for
// invalid rows; kInvalid if the training file does not have exactly two labels.
Result<std::unique_ptr<KeyedDataset>> open_keyed(const Location& location, const Split& split);

}  // namespace tally::data
