#include "data/keyed_open.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/errors.h"
#include "data/input_file.h"
#include "data/keyed_columns.h"
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
  if (is_csv_name(file)) return TableFormat::kColumns;
  return invalid(
      "{} is no table: expected a file .csv, .tsv or .data, Criteo's click log, or rows in "
      "libsvm's form",
      file.string());
}

// How a table is read. `by_columns`: by its columns, also if it has a format of its own.
TableFormat read_as(TableFormat format, bool by_columns) {
  return by_columns && format != TableFormat::kLibsvm ? TableFormat::kColumns : format;
}

bool names_target(const ReadOptions& read) {
  return !read.target_column.empty() || read.target != CsvTarget::kAuto;
}

// The file of that name, or its .gz form, if it exists.
std::optional<fs::path> found_in(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  for (const std::string& candidate : {name, name + ".gz"})
    if (fs::is_regular_file(folder / candidate, ignored)) return folder / candidate;
  return std::nullopt;
}

// The files of a folder; without a file of a known name they are those of any csv table.
Result<Location> tables_in(const fs::path& folder) {
  Location tables{.kind = Kind::kCsv};
  if (const auto any = locate(folder.string(), ""); any && any->kind == Kind::kCsv) tables = *any;
  for (const char* const name :
       {"ratings.csv", "adult.data", "train.txt", "train.tsv", "train.csv", "train.libsvm"}) {
    const auto found = found_in(folder, name);
    if (!found) continue;
    if (tables.train != std::vector{*found}) tables = {.kind = Kind::kCsv, .train = {*found}};
    return tables;
  }
  if (tables.train.size() == 1) return tables;
  return invalid(
      fmt::format("{} has no ratings.csv, adult.data, or train.txt, .tsv, .csv or .libsvm: name "
                  "the file",
                  folder.string()));
}

std::string first_line(const fs::path& file) {
  const auto beginning = first_bytes(file, kBeginningBytes);
  return beginning ? beginning->substr(0, beginning->find('\n')) : std::string();
}

// True for the adult.test that was published, whose first line and labels differ from adult.data.
bool is_published_test(const fs::path& file) { return first_line(file).starts_with('|'); }

// Criteo's test file lacks the first column, the label. A table of the user's own may look like
// Criteo's, and have a test file with all columns.
bool has_label_column(const fs::path& test, const fs::path& train) {
  const auto separators = [](const std::string& line) {
    return std::count(line.begin(), line.end(), '\t') + std::count(line.begin(), line.end(), ',');
  };
  const std::string line = first_line(test);
  return separators(line) == separators(first_line(train)) && !line.starts_with('\t') &&
         !line.starts_with(',');
}

// The test file by the naming of each format.
std::vector<fs::path> test_part(const fs::path& file, TableFormat format, bool by_columns) {
  if (format == TableFormat::kCriteo) {
    std::vector<fs::path> test = by_columns ? test_beside(file) : std::vector<fs::path>{};
    std::erase_if(test, [&](const fs::path& one) { return !has_label_column(one, file); });
    return test;
  }
  if (format == TableFormat::kAdult) {
    const auto test = found_in(file.parent_path(), "adult.test");
    if (!test || *test == file || (by_columns && is_published_test(*test))) return {};
    return {*test};
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
  TALLY_CHECK(format != TableFormat::kLibsvm && format != TableFormat::kColumns);
  if (format == TableFormat::kMovieLens) return read_ratings(file, readers);
  TALLY_TRY(const Bytes bytes, read_file(file, {.readers = readers}));
  return format == TableFormat::kCriteo ? parse_criteo(bytes, file.string())
                                        : parse_adult(bytes, file.string());
}

Result<Parts> read_parts(const Location& location, TableFormat format) {
  if (format == TableFormat::kLibsvm) return read_libsvm_parts(location);
  Parts parts;
  TALLY_TRY(parts.train, read_table(format, location.train[0], location.readers));
  if (!location.test.empty()) {
    TALLY_TRY(parts.test, read_table(format, location.test[0], location.readers));
  }
  return parts;
}

Result<std::unique_ptr<KeyedDataset>> dataset_of(KeyedRows rows) {
  const std::uint64_t slots = rows.encoding.fields.size();
  return std::make_unique<KeyedDataset>(std::move(rows), slots);
}

Result<std::unique_ptr<KeyedDataset>> open_columns(const Location& location, const Split& split,
                                                   const std::string& target) {
  const KeyedColumnsOptions options{
      .split = split, .target_column = target, .readers = location.readers};
  TALLY_TRY(const Bytes train_bytes, read_file(location.train[0], {.readers = location.readers}));
  const NamedBytes train{train_bytes, location.train[0].string()};
  if (location.test.empty()) {
    TALLY_TRY(KeyedRows rows, read_keyed_columns(train, nullptr, options));
    return dataset_of(std::move(rows));
  }
  TALLY_TRY(const Bytes test_bytes, read_file(location.test[0], {.readers = location.readers}));
  const NamedBytes test{test_bytes, location.test[0].string()};
  TALLY_TRY(KeyedRows rows, read_keyed_columns(train, &test, options));
  return dataset_of(std::move(rows));
}

Result<Location> locate_table(const std::string& name_or_path, const fs::path& cache,
                              bool by_columns) {
  std::error_code failure;
  const fs::file_status status = fs::status(name_or_path, failure);
  const bool known = find_in_catalog(name_or_path) != nullptr;
  // locate() handles catalog names, and returns the error for a missing path.
  if (known || !fs::exists(status)) {
    TALLY_TRY(Location location, locate(name_or_path, cache));
    TALLY_TRY(const TableFormat format, format_of(location.train.at(0)));
    if (read_as(format, by_columns) != TableFormat::kColumns) return location;
    return Location{.kind = Kind::kCsv, .train = location.train, .test = location.test};
  }
  Location location{.kind = Kind::kCsv, .train = {name_or_path}};
  if (fs::is_directory(status)) {
    TALLY_TRY(location, tables_in(name_or_path));
  }
  const fs::path file = location.train[0];
  TALLY_TRY(const TableFormat format, format_of(file));
  const TableFormat read = read_as(format, by_columns);
  if (read == TableFormat::kMovieLens) location.kind = Kind::kMovieLens;
  if (read == TableFormat::kLibsvm) location.kind = Kind::kLibsvm;
  if (format != TableFormat::kColumns || location.test.empty())
    location.test = test_part(file, format, by_columns);
  return location;
}

Result<Location> locate_by_columns(const std::string& name_or_path, const fs::path& cache) {
  return locate_table(name_or_path, cache, /*by_columns=*/true);
}

}  // namespace

Result<Location> locate_keyed(const std::string& name_or_path, const fs::path& cache) {
  return locate_table(name_or_path, cache, /*by_columns=*/false);
}

Result<Location> locate_keyed_parts(const std::string& name_or_path, const fs::path& cache,
                                    const ReadOptions& read) {
  return locate_parts(name_or_path, cache, read,
                      names_target(read) ? locate_by_columns : locate_keyed);
}

Result<std::unique_ptr<KeyedDataset>> open_keyed(const Location& location, const Split& split,
                                                 const ReadOptions& read) {
  TALLY_CHECK(location.train.size() == 1 && location.test.size() <= 1);
  TALLY_TRY(check(split));
  TALLY_TRY(const TableFormat recognised, format_of(location.train[0]));
  const TableFormat format = read_as(recognised, names_target(read));
  if (format == TableFormat::kColumns) return open_columns(location, split, read.target_column);
  TALLY_TRY(Parts parts, read_parts(location, format));
  const std::uint64_t slots =
      std::max({std::uint64_t{1}, parts.train.longest(), parts.test ? parts.test->longest() : 0});
  if (!parts.test) {
    KeyedRows part = chosen(parts.train, part_of(parts.train.size(), split));
    return std::make_unique<KeyedDataset>(std::move(part), slots);
  }
  return std::make_unique<KeyedDataset>(std::move(split.train ? parts.train : *parts.test), slots);
}

Result<std::unique_ptr<KeyedDataset>> open_keyed_like(const fs::path& file, const KeyedLike& like) {
  if (!like.encoding.columns.empty()) {
    TALLY_TRY(const Bytes bytes, read_file(file));
    TALLY_TRY(KeyedRows own, read_keyed_columns_like({bytes, file.string()}, like.encoding,
                                                     like.classes, like.needs_labels));
    return dataset_of(std::move(own));
  }
  const std::vector<std::string>& fields = like.encoding.fields;
  TALLY_TRY(const TableFormat format, format_of(file));
  if (format == TableFormat::kColumns)
    return invalid("{} has none of the known formats, and the model was trained on {}",
                   file.string(),
                   fields.empty() ? std::string("rows in libsvm's form")
                                  : fmt::format("one with the fields {}", fmt::join(fields, ", ")));
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
  if (rows.encoding.fields != fields)
    return invalid("{} has the fields {}, and the model was trained on {}", file.string(),
                   fmt::join(rows.encoding.fields, ", "), fmt::join(fields, ", "));
  if (rows.longest() > like.slots)
    return tally::corrupt("{} has a row of {} entries, and the model was trained on {} at most",
                          file.string(), rows.longest(), like.slots);
  return std::make_unique<KeyedDataset>(std::move(rows), like.slots);
}

}  // namespace tally::data
