#include "data/libsvm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/errors.h"
#include "data/input_file.h"
#include "data/number.h"
#include "data/preprocessing.h"

namespace tally::data {
namespace {

constexpr std::size_t kMaxClasses = 1000;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Splits a line into words, without its comment.
class Words final {
 public:
  explicit Words(std::string_view line) : rest_(line.substr(0, line.find('#'))) {}
  // Returns an empty word at the end.
  std::string_view next() {
    std::size_t begin = 0;
    while (begin < rest_.size() && is_blank(rest_[begin])) ++begin;
    std::size_t end = begin;
    while (end < rest_.size() && !is_blank(rest_[end])) ++end;
    const std::string_view word = rest_.substr(begin, end - begin);
    rest_.remove_prefix(end);
    return word;
  }

 private:
  std::string_view rest_;
};

std::optional<std::uint32_t> index_in(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value == 0 || value > kMaxLibsvmFeatures) return std::nullopt;
  return value;
}

struct Entry {
  std::uint32_t index = 0;  // from 1
  double value = 0;
};

std::optional<Entry> entry_in(std::string_view word) {
  const std::size_t colon = word.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto index = index_in(word.substr(0, colon));
  const auto value = number_in(word.substr(colon + 1));
  if (!index || !value) return std::nullopt;
  return Entry{*index, *value};
}

// Parses a line and appends its row; a blank line has no row. `offset_of` gives the offset of a
// word in the file, for error messages.
template <typename OffsetOf>
Result<void> add_row(std::string_view line, const std::string& name, const OffsetOf& offset_of,
                     SparseRows& rows) {
  Words words(line);
  const std::string_view first = words.next();
  if (first.empty()) return {};
  const auto label = number_in(first);
  if (!label) return corrupt(name, offset_of(first), "a number as label", shown(first));
  std::uint32_t previous = 0;
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    const auto entry = entry_in(word);
    if (!entry) {
      return corrupt(name, offset_of(word),
                     fmt::format("index:value with an index from 1 to {}", kMaxLibsvmFeatures),
                     shown(word));
    }
    if (entry->index <= previous)
      return corrupt(name, offset_of(word), fmt::format("an index above {}", previous),
                     shown(word));
    previous = entry->index;
    rows.indices.push_back(entry->index - 1);
    rows.values.push_back(static_cast<float>(entry->value));
  }
  rows.features = std::max(rows.features, previous);
  rows.labels.push_back(*label);
  rows.starts.push_back(rows.indices.size());
  return {};
}

// The sorted distinct labels; empty if the labels are regression targets: not all are integers, or
// more than kMaxClasses are distinct.
std::vector<double> classes_of(const std::vector<double>& labels) {
  std::vector<double> found;
  for (const double label : labels) {
    if (label != std::floor(label)) return {};
    const auto at = std::lower_bound(found.begin(), found.end(), label);
    if (at != found.end() && *at == label) continue;
    if (found.size() == kMaxClasses) return {};
    found.insert(at, label);
  }
  return found;
}

class SparseDataset final : public Dataset {
 public:
  SparseDataset(SparseRows rows, std::vector<double> classes)
      : rows_(std::move(rows)), classes_(std::move(classes)) {
    shape_.input = {rows_.features};
    if (classes_.empty()) shape_.target_type = DataType::kFloat32;
  }

  std::uint64_t size() const override { return rows_.labels.size(); }
  const SampleShape& shape() const override { return shape_; }
  std::vector<std::string> classes() const override {
    std::vector<std::string> names;
    for (const double label : classes_) names.push_back(fmt::format("{}", label));
    return names;
  }
  Preprocessing preprocessing() const override { return {shape_, classes(), VectorEncoding{}}; }

  Result<void> read(std::uint64_t index, Rng&, std::span<std::byte> input,
                    std::span<std::byte> target) const override {
    TALLY_CHECK(index < size() && input.size() == input_bytes(shape_) &&
                target.size() == target_bytes(shape_));
    std::memset(input.data(), 0, input.size());
    for (std::uint64_t i = rows_.starts[index]; i < rows_.starts[index + 1]; ++i)
      std::memcpy(&input[rows_.indices[i] * sizeof(float)], &rows_.values[i], sizeof(float));
    if (classes_.empty()) {
      const auto value = static_cast<float>(rows_.labels[index]);
      std::memcpy(target.data(), &value, sizeof value);
    } else {
      const std::int64_t label =
          std::lower_bound(classes_.begin(), classes_.end(), rows_.labels[index]) -
          classes_.begin();
      std::memcpy(target.data(), &label, sizeof label);
    }
    return {};
  }

 private:
  SparseRows rows_;
  std::vector<double> classes_;
  SampleShape shape_;
};

}  // namespace

Result<SparseRows> parse_libsvm(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto offset_of = [&text](std::string_view word) {
    return static_cast<std::uint64_t>(word.data() - text.data());
  };
  SparseRows rows;
  rows.starts.push_back(0);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    TALLY_TRY(add_row(text.substr(begin, end - begin), name, offset_of, rows));
    begin = end + 1;
  }
  if (rows.labels.empty()) return corrupt(name, text.size(), "a row", "the end of the file");
  if (rows.features == 0)
    return corrupt(name, text.size(), "a row with a value", "the end of the file");
  return rows;
}

Result<SparseRows> read_libsvm(const std::filesystem::path& file, int readers) {
  TALLY_TRY(const Bytes bytes, read_file(file, {.readers = readers}));
  return parse_libsvm(bytes, file.string());
}

bool looks_like_libsvm(std::string_view beginning) {
  Words words(beginning.substr(0, beginning.find('\n')));
  if (!number_in(words.next())) return false;
  const std::string_view second = words.next();
  return entry_in(second).has_value();
}

Result<std::unique_ptr<Dataset>> open_libsvm(const std::vector<std::filesystem::path>& train,
                                             const std::vector<std::filesystem::path>& test,
                                             const Split& split, int readers) {
  TALLY_CHECK(train.size() == 1 && test.size() <= 1);
  TALLY_TRY(SparseRows rows, read_libsvm(train[0], readers));
  std::vector<double> classes = classes_of(rows.labels);
  if (test.empty()) {
    auto indices = part_of(rows.labels.size(), split);
    return make_subset(std::make_unique<SparseDataset>(std::move(rows), std::move(classes)),
                       std::move(indices));
  }
  TALLY_TRY(SparseRows held_out, read_libsvm(test[0], readers));
  const std::uint32_t features = std::max(rows.features, held_out.features);
  rows.features = held_out.features = features;
  for (std::size_t i = 0; i < held_out.labels.size() && !classes.empty(); ++i)
    if (!std::binary_search(classes.begin(), classes.end(), held_out.labels[i]))
      return tally::corrupt(fmt::format("{}: row {}: expected a label of {}, found {}",
                                        test[0].string(), i + 1, train[0].string(),
                                        held_out.labels[i]));
  return std::unique_ptr<Dataset>(std::make_unique<SparseDataset>(
      std::move(split.train ? rows : held_out), std::move(classes)));
}

Result<std::unique_ptr<Dataset>> open_libsvm_like(const std::filesystem::path& file,
                                                  std::uint32_t features,
                                                  const std::vector<std::string>& classes,
                                                  bool needs_labels) {
  TALLY_TRY(SparseRows rows, read_libsvm(file));
  if (rows.features > features)
    return tally::corrupt("{}: index {}: the model was trained on {} features", file.string(),
                          rows.features, features);
  rows.features = features;
  std::vector<double> labels;
  for (const std::string& name : classes) labels.push_back(number_in(name).value_or(0));
  for (std::size_t i = 0; i < rows.labels.size() && !labels.empty(); ++i) {
    if (std::binary_search(labels.begin(), labels.end(), rows.labels[i])) continue;
    if (needs_labels)
      return tally::corrupt("{}: row {}: label {}: the model knows {}", file.string(), i + 1,
                            rows.labels[i], fmt::join(classes, ", "));
    rows.labels[i] = labels.front();
  }
  return std::unique_ptr<Dataset>(
      std::make_unique<SparseDataset>(std::move(rows), std::move(labels)));
}

}  // namespace tally::data
