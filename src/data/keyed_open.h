#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "data/keyed.h"
#include "data/locate.h"
#include "tally/error.h"

namespace tally::data {

// Finds a table of keys (src/data/keyed_tables.h) or sparse vectors in libsvm's form: a name of the
// catalog, a file, or a folder with ratings.csv, adult.data, or a train.txt, train.tsv, train.csv
// or train.libsvm, each packed or not. The test part lies beside it: adult.test, a9a.t, test.csv;
// Criteo's has no labels and is left alone. kSystem if nothing is there, kInvalid if it is no such
// table.
Result<Location> locate_keyed(const std::string& name_or_path, const std::filesystem::path& cache);

// The part that `split.train` says: with a test file that one or the other, else the rows that the
// split chooses. Both parts have the same slots and classes. kCorrupt for rows that are wrong;
// kInvalid where labels are not two.
Result<std::unique_ptr<KeyedDataset>> open_keyed(const Location& location, const Split& split);

}  // namespace tally::data
