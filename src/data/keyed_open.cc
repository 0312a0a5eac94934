#include "data/keyed_open.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/errors.h"
#include "data/input_file.h"
#include "data/keyed_tables.h"
#include "data/libsvm.h"
#include "data/number.h"

namespace tally::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBeginningBytes = 65536;

Result<TableFormat> format_of(const fs::path& file) {
  TALLY_TRY(const std::string beginning, first_bytes(file, kBeginningBytes));
  if (const auto format = recognise_table(beginning)) return *format;
  return invalid(
      "{} is no table that is known: expected Criteo's click log, UCI Adult, MovieLens' "
      "ratings.csv, or rows in libsvm's form; mlp and linear read other tables",
      file.string());
}

// The file of that name, or its .gz form, if it exists.
std::optional<fs::path> found_in(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  for (const std::string& candidate : {name, name + ".gz"})
    if (fs::is_regular_file(folder / candidate, ignored)) return folder / candidate;
  return std::nullopt;
}

Result<fs::path> table_in(const fs::path& folder) {
  for (const char* const name :
       {"ratings.csv", "adult.data", "train.txt", "train.tsv", "train.csv", "train.libsvm"})
    if (const auto found = found_in(folder, name)) return *found;
  return invalid(
      fmt::format("{} has no ratings.csv, adult.data, or train.txt, .tsv, .csv or .libsvm: name "
                  "the file",
                  folder.string()));
}

// The test file by the naming of each format. Criteo's test file has no labels, so it is not used.
std::vector<fs::path> test_part(const fs::path& file, TableFormat format) {
  if (format == TableFormat::kCriteo) return {};
  if (format == TableFormat::kAdult) {
    const auto test = found_in(file.parent_path(), "adult.test");
    return test && *test != file ? std::vector{*test} : std::vector<fs::path>{};
  }
  return test_beside(file);
}

Result<KeyedRows> read_ratings(const fs::path& file, int readers) {
  MovieGenres genres;
  if (const auto movies = found_in(file.parent_path(), "movies.csv")) {
    TALLY_TRY(const Bytes bytes, read_file(*movies, {.readers = readers}));
    TALLY_TRY(genres, parse_movies(bytes, movies->string()));
  }
  TALLY_TRY(const Bytes bytes, read_file(file, {.readers = readers}));
  return parse_ratings(bytes, file.string(), genres);
}

std::vector<double> distinct(const std::vector<double>& labels) {
  const std::set<double> found(labels.begin(), labels.end());
  return {found.begin(), found.end()};
}

// The labels must be in `classes`, the two labels of the training file; the lower one becomes 0.
Result<KeyedRows> keyed_rows_of(const SparseRows& rows, const std::vector<double>& classes,
                                const std::string& name) {
  KeyedRows result;
  for (const double label : classes) result.classes.push_back(fmt::format("{}", label));
  for (std::size_t row = 0; row < rows.labels.size(); ++row) {
    const auto label = std::find(classes.begin(), classes.end(), rows.labels[row]);
    if (label == classes.end())
      return tally::corrupt(fmt::format("{}: row {}: expected a label {} or {}, found {}", name,
                                        row + 1, classes[0], classes[1], rows.labels[row]));
    for (std::uint64_t i = rows.starts[row]; i < rows.starts[row + 1]; ++i)
      result.add(rows.indices[i], rows.values[i]);
    result.end_row(label != classes.begin());
  }
  return result;
}

struct Parts {
  KeyedRows train;
  std::optional<KeyedRows> test;
};

Result<Parts> read_libsvm_parts(const Location& location) {
  const std::string name = location.train[0].string();
  TALLY_TRY(const SparseRows train, read_libsvm(location.train[0], location.readers));
  const std::vector<double> classes = distinct(train.labels);
  if (classes.size() != 2)
    return invalid(fmt::format("{} has labels of {} kind{}: two are taken, such as -1 and 1", name,
                               classes.size(), classes.size() == 1 ? "" : "s"));
  Parts parts;
  TALLY_TRY(parts.train, keyed_rows_of(train, classes, name));
  if (location.test.empty()) return parts;
  TALLY_TRY(const SparseRows test, read_libsvm(location.test[0], location.readers));
  TALLY_TRY(parts.test, keyed_rows_of(test, classes, location.test[0].string()));
  return parts;
}

Result<KeyedRows> read_table(TableFormat format, const fs::path& file, int readers = 1) {
  if (format == TableFormat::kMovieLens) return read_ratings(file, readers);
  TALLY_TRY(const Bytes bytes, read_file(file, {.readers = readers}));
  return format == TableFormat::kCriteo ? parse_criteo(bytes, file.string())
                                        : parse_adult(bytes, file.string());
}

Result<Parts> read_parts(const Location& location) {
  TALLY_TRY(const TableFormat format, format_of(location.train[0]));
  if (format == TableFormat::kLibsvm) return read_libsvm_parts(location);
  Parts parts;
  TALLY_TRY(parts.train, read_table(format, location.train[0], location.readers));
  if (!location.test.empty()) {
    TALLY_TRY(parts.test, read_table(format, location.test[0], location.readers));
  }
  return parts;
}

}  // namespace

Result<Location> locate_keyed(const std::string& name_or_path, const fs::path& cache) {
  std::error_code failure;
  const fs::file_status status = fs::status(name_or_path, failure);
  const bool known = find_in_catalog(name_or_path) != nullptr;
  // locate() handles catalog names, and returns the error for a missing path.
  if (known || !fs::exists(status)) {
    TALLY_TRY(Location location, locate(name_or_path, cache));
    TALLY_TRY(format_of(location.train.at(0)));
    return location;
  }
  fs::path file = name_or_path;
  if (fs::is_directory(status)) {
    TALLY_TRY(file, table_in(name_or_path));
  }
  TALLY_TRY(const TableFormat format, format_of(file));
  Location location{.kind = format == TableFormat::kMovieLens ? Kind::kMovieLens
                            : format == TableFormat::kLibsvm  ? Kind::kLibsvm
                                                              : Kind::kCsv,
                    .train = {file}};
  location.test = test_part(file, format);
  return location;
}

Result<std::unique_ptr<KeyedDataset>> open_keyed(const Location& location, const Split& split) {
  TALLY_CHECK(location.train.size() == 1 && location.test.size() <= 1);
  TALLY_TRY(check(split));
  TALLY_TRY(Parts parts, read_parts(location));
  const std::uint64_t slots =
      std::max({std::uint64_t{1}, parts.train.longest(), parts.test ? parts.test->longest() : 0});
  if (!parts.test) {
    KeyedRows part = chosen(parts.train, part_of(parts.train.size(), split));
    return std::make_unique<KeyedDataset>(std::move(part), slots);
  }
  return std::make_unique<KeyedDataset>(std::move(split.train ? parts.train : *parts.test), slots);
}

Result<std::unique_ptr<KeyedDataset>> open_keyed_like(const fs::path& file, const KeyedLike& like) {
  TALLY_TRY(const TableFormat format, format_of(file));
  KeyedRows rows;
  if (format == TableFormat::kLibsvm) {
    TALLY_TRY(SparseRows sparse, read_libsvm(file));
    std::vector<double> classes;
    for (const std::string& name : like.classes) classes.push_back(number_in(name).value_or(0));
    if (!like.needs_labels)
      for (double& label : sparse.labels)
        if (std::find(classes.begin(), classes.end(), label) == classes.end())
          label = classes.front();
    TALLY_TRY(rows, keyed_rows_of(sparse, classes, file.string()));
  } else {
    TALLY_TRY(rows, read_table(format, file));
  }
  if (rows.fields != like.fields)
    return invalid("{} has the fields {}, and the model was trained on {}", file.string(),
                   fmt::join(rows.fields, ", "), fmt::join(like.fields, ", "));
  if (rows.longest() > like.slots)
    return tally::corrupt("{} has a row of {} entries, and the model was trained on {} at most",
                          file.string(), rows.longest(), like.slots);
  return std::make_unique<KeyedDataset>(std::move(rows), like.slots);
}

}  // namespace tally::data
