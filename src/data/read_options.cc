#include "data/read_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "data/preprocessing.h"

namespace tally::data {
namespace {

namespace fs = std::filesystem;

Result<void> check_kind(const std::string& name, Kind kind, const ReadOptions& read) {
  const bool of_table = !read.target_column.empty() || read.target != CsvTarget::kAuto;
  if (of_table && kind != Kind::kCsv)
    return invalid("{} is of the kind {}, and only a csv table has a target column", name,
                   to_string(kind));
  if (read.level == TextLevel::kByte && kind != Kind::kText)
    return invalid("{} is of the kind {}, and only a text can be read as bytes", name,
                   to_string(kind));
  return {};
}

// "13 features", "images of 3 x 32 x 32".
std::string inputs_text(Kind kind, const ReadOptions& read, const Dataset& train) {
  const std::vector<std::int64_t>& shape = train.shape().input;
  const Preprocessing samples = train.preprocessing();
  const auto* const keyed = std::get_if<KeyedEncoding>(&samples.encoding);
  if (keyed != nullptr && !keyed->columns.empty())
    return fmt::format("{} column{} as {} slots of keys", keyed->columns.size() - 1,
                       keyed->columns.size() == 2 ? "" : "s", shape[1]);
  if (keyed != nullptr)
    return keyed->fields.empty() ? fmt::format("up to {} keys in a row", shape[1])
                                 : fmt::format("{} fields", shape[1]);
  if (kind == Kind::kText)
    return read.level == TextLevel::kByte
               ? "a text of bytes"
               : fmt::format("a text of {} different characters", train.classes().size());
  if (shape.size() == 1) return fmt::format("{} feature{}", shape[0], shape[0] == 1 ? "" : "s");
  return fmt::format("images of {}", fmt::join(shape, " x "));
}

std::string targets_text(const Dataset& train) {
  const std::size_t classes = train.classes().size();
  const std::string kind =
      classes == 0 ? "numbers" : fmt::format("{} class{}", classes, classes == 1 ? "" : "es");
  const Preprocessing samples = train.preprocessing();
  if (const auto* const table = std::get_if<TableEncoding>(&samples.encoding))
    return fmt::format("target {} ({})", table->columns[table->target].name, kind);
  const auto* const keyed = std::get_if<KeyedEncoding>(&samples.encoding);
  if (keyed == nullptr || keyed->columns.empty()) return kind;
  return fmt::format("target {} ({})", keyed->columns[keyed->target].name,
                     fmt::join(samples.classes, " or "));
}

}  // namespace

Result<Location> locate_parts(const std::string& name_or_path, const fs::path& cache,
                              const ReadOptions& read, Locate find) {
  TALLY_TRY(Location location, find(name_or_path, cache));
  TALLY_TRY(check_kind(name_or_path, location.kind, read));
  location.readers = read.readers;
  if (read.validation) location.test.clear();
  if (read.test.empty()) return location;
  TALLY_TRY(const Location other, find(read.test, cache));
  if (other.kind != location.kind)
    return invalid(
        "{} is of the kind {}, and cannot be the test part of {}, which is of the kind {}",
        read.test, to_string(other.kind), name_or_path, to_string(location.kind));
  std::error_code ignored;
  const bool both = !other.train.empty() && !other.test.empty();
  if (both && fs::is_directory(read.test, ignored))
    return invalid("{} has a training part and a test part itself: name the part that is meant",
                   read.test);
  location.test = other.train.empty() ? other.test : other.train;
  return location;
}

Result<void> check_parts(const Dataset& train, const Dataset& test) {
  const SampleShape& expected = train.shape();
  const SampleShape& found = test.shape();
  if (expected.input == found.input && expected.target == found.target &&
      expected.input_type == found.input_type && expected.target_type == found.target_type)
    return {};
  return invalid("the test part has samples of {}, and the training part has samples of {}",
                 fmt::join(found.input, " x "), fmt::join(expected.input, " x "));
}

std::string describe_parts(const Location& location, const ReadOptions& read,
                           const Dataset& train) {
  std::string text = inputs_text(location.kind, read, train);
  if (location.kind != Kind::kText) text += ", " + targets_text(train);
  if (!location.test.empty())
    return fmt::format("{}; test part {}", text, location.test.front().string());
  return fmt::format("{}; {}{:.4g} % held out for the test", text,
                     location.kind == Kind::kText ? "its last " : "",
                     100 * read.validation.value_or(kDefaultValidation));
}

}  // namespace tally::data
