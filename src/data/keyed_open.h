#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "data/keyed.h"
#include "data/locate.h"
#include "data/read_options.h"
#include "tally/error.h"

namespace tally::data {

// Finds a table with a format of its own (src/data/keyed_tables.h), sparse vectors in libsvm
// format, or another csv table (src/data/keyed_columns.h): a catalog name, a file, or a folder with
// ratings.csv, adult.data, train.txt, train.tsv, train.csv or train.libsvm, optionally
// gzip-compressed, or with the files of a table as in locate(). The test part is a file in the same
// folder: adult.test, a9a.t or test.csv. Criteo's test file has no labels and is ignored. kSystem
// if nothing is found, kInvalid if the format is not supported.
Result<Location> locate_keyed(const std::string& name_or_path, const std::filesystem::path& cache);

// The same with the test part that `read` selects, as locate_parts(). If `read` names a target, a
// table with a format of its own is read as any other csv table. Its test part is still found by
// its format, unless it cannot be read by columns: the published adult.test, and a test file that
// looks like Criteo's without labels.
Result<Location> locate_keyed_parts(const std::string& name_or_path,
                                    const std::filesystem::path& cache, const ReadOptions& read);

// Opens the part that `split.train` selects. With a test file the parts are the two files;
// otherwise `split` divides the rows. Both parts have the same slots and classes. `read` is that of
// locate_keyed_parts(). kCorrupt for invalid rows; kInvalid if the training file does not have
// exactly two labels.
Result<std::unique_ptr<KeyedDataset>> open_keyed(const Location& location, const Split& split,
                                                 const ReadOptions& read = {});

// Facts of the rows that a model was trained on.
struct KeyedLike {
  KeyedEncoding encoding;
  std::uint64_t slots = 0;
  std::vector<std::string> classes;  // names of the labels 0 and 1
  bool needs_labels = true;          // false: an unknown label becomes 0
};

// Opens one file for such a model. kInvalid for a table with other fields or without the columns of
// the model; kCorrupt, with the row, for an unknown label or a row with more entries than the model
// has slots.
Result<std::unique_ptr<KeyedDataset>> open_keyed_like(const std::filesystem::path& file,
                                                      const KeyedLike& like);

}  // namespace tally::data
