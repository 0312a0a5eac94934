// A table is read in two passes. find_columns() determines the type and the categories of each
// column from the training file. read_rows() then converts rows to features and marks missing
// numbers as NaN. measure() computes the scales of the features from the training part, and
// complete() applies them. A table that is opened for a trained model takes columns and scales from
// the model's preprocessing instead.
#include "data/csv.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "data/csv_columns.h"
#include "data/csv_rows.h"
#include "data/input_file.h"
#include "data/number.h"
#include "data/preprocessing.h"

namespace tally::data {
namespace {

constexpr float kCsvMissing = std::numeric_limits<float>::quiet_NaN();

// All rows, one after the other.
struct Rows {
  std::vector<float> features;
  std::vector<float> targets;  // values, or labels if the target is a class
};

Result<void> add_features(const NamedBytes& file, const CsvColumns& table,
                          const FileColumns& columns, const std::vector<CsvField>& row,
                          Rows& rows) {
  const std::size_t begin = rows.features.size();
  rows.features.resize(begin + table.features, 0.0F);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (i == table.target) continue;
    const CsvColumn& column = table.columns[i];
    const CsvField& field = row[columns.field_of[i].value()];
    float* const at = &rows.features[begin] + column.first_feature;
    if (!column.numeric) {
      if (const auto category = category_of(column, field.text)) at[*category] = 1.0F;
      continue;
    }
    const auto value = number_in(field.text);
    if (!value && !is_missing(field.text)) return bad_field(file, column, field, "a number");
    *at = value ? static_cast<float>(*value) : kCsvMissing;
  }
  return {};
}

Result<Rows> read_rows(const NamedBytes& file, const CsvColumns& table,
                       const FileColumns& columns) {
  Rows rows;
  const auto target = columns.field_of[table.target];
  TALLY_TRY(each_row(file, columns, [&](const std::vector<CsvField>& row) -> Result<void> {
    TALLY_TRY(rows.targets.emplace_back(), target_of(file, table, target, row));
    return add_features(file, table, columns, row, rows);
  }));
  return rows;
}

Rows chosen(const Rows& rows, std::size_t features, const std::vector<std::uint64_t>& indices) {
  Rows result;
  for (const std::uint64_t i : indices) {
    const auto begin = rows.features.begin() + static_cast<std::ptrdiff_t>(i * features);
    result.features.insert(result.features.end(), begin,
                           begin + static_cast<std::ptrdiff_t>(features));
    result.targets.push_back(rows.targets[i]);
  }
  return result;
}

// Missing values become the mean of the feature.
std::vector<FeatureScale> measure(const Rows& training, std::size_t features, bool standardise) {
  const std::size_t count = training.targets.size();
  std::vector<FeatureScale> scales(features);
  for (std::size_t f = 0; f < features; ++f) {
    double mean = 0;
    double squares = 0;
    std::size_t present = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double value = training.features[i * features + f];
      if (std::isnan(value)) continue;
      ++present;
      // Running mean and squares (Welford 1962), which keep the precision of large values.
      const double step = value - mean;
      mean += step / static_cast<double>(present);
      squares += step * (value - mean);
    }
    scales[f].missing = mean;
    if (!standardise) continue;
    const double variance = present > 0 ? squares / static_cast<double>(present) : 0.0;
    scales[f].mean = mean;
    scales[f].deviation = variance > 0 ? std::sqrt(variance) : 1.0;
  }
  return scales;
}

void complete(const std::vector<FeatureScale>& scales, Rows& rows) {
  for (std::size_t at = 0; at < rows.features.size(); ++at) {
    const FeatureScale& scale = scales[at % scales.size()];
    const double value = std::isnan(rows.features[at]) ? scale.missing : rows.features[at];
    rows.features[at] = static_cast<float>((value - scale.mean) / scale.deviation);
  }
}

// The reverse of encoding_of().
CsvColumns columns_of(const TableEncoding& encoding) {
  CsvColumns table{.target = encoding.target};
  for (std::size_t i = 0; i < encoding.columns.size(); ++i) {
    const ColumnEncoding& encoded = encoding.columns[i];
    table.columns.push_back({.name = encoded.name,
                             .known = true,
                             .numeric = encoded.categories.empty(),
                             .categories = encoded.categories,
                             .first_feature = table.features});
    table.features += encoded.features.size();
  }
  table.target_is_class = !table.columns[table.target].numeric;
  return table;
}

TableEncoding encoding_of(const CsvColumns& table, const std::vector<FeatureScale>& scales) {
  TableEncoding encoding{.target = table.target};
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const CsvColumn& column = table.columns[i];
    ColumnEncoding& encoded = encoding.columns.emplace_back();
    encoded.name = column.name;
    if (!column.numeric) encoded.categories = column.categories;
    if (i == table.target) continue;
    const auto first = scales.begin() + static_cast<std::ptrdiff_t>(column.first_feature);
    const std::size_t count = column.numeric ? 1 : column.categories.size();
    encoded.features.assign(first, first + static_cast<std::ptrdiff_t>(count));
  }
  return encoding;
}

class TableDataset final : public Dataset {
 public:
  TableDataset(Rows rows, TableEncoding encoding)
      : rows_(std::move(rows)), encoding_(std::move(encoding)) {
    std::size_t features = 0;
    for (const ColumnEncoding& column : encoding_.columns) features += column.features.size();
    shape_.input = {static_cast<std::int64_t>(features)};
    classes_ = encoding_.columns[encoding_.target].categories;
    if (classes_.empty()) shape_.target_type = DataType::kFloat32;
  }

  std::uint64_t size() const override { return rows_.targets.size(); }
  const SampleShape& shape() const override { return shape_; }
  std::vector<std::string> classes() const override { return classes_; }
  Preprocessing preprocessing() const override { return {shape_, classes_, encoding_}; }

  Result<void> read(std::uint64_t index, Rng&, std::span<std::byte> input,
                    std::span<std::byte> target) const override {
    TALLY_CHECK(index < size() && input.size() == input_bytes(shape_) &&
                target.size() == target_bytes(shape_));
    const std::size_t features = input.size() / sizeof(float);
    std::memcpy(input.data(), &rows_.features[index * features], input.size());
    if (classes_.empty()) {
      std::memcpy(target.data(), &rows_.targets[index], sizeof(float));
    } else {
      const auto label = static_cast<std::int64_t>(rows_.targets[index]);
      std::memcpy(target.data(), &label, sizeof label);
    }
    return {};
  }

 private:
  Rows rows_;
  TableEncoding encoding_;
  std::vector<std::string> classes_;
  SampleShape shape_;
};

}  // namespace

Result<std::unique_ptr<Dataset>> make_csv(const NamedBytes& train, const NamedBytes* test,
                                          const CsvOptions& options) {
  TALLY_TRY(const CsvColumns table, find_columns(train, options));
  if (options.target == CsvTarget::kNumber && table.target_is_class) {
    return invalid(fmt::format("{}: column {} has text, expected a numeric target", train.name,
                               table.columns[table.target].name));
  }
  const FileColumns columns = same_columns(table);
  TALLY_TRY(Rows training, read_rows(train, table, columns));
  Rows wanted;
  if (test != nullptr) {
    TALLY_TRY(check_names(*test, table));
    TALLY_TRY(wanted, read_rows(*test, table, columns));
    if (options.split.train) wanted = training;
  } else {
    Split split = options.split;
    wanted = chosen(training, table.features, part_of(training.targets.size(), split));
    split.train = true;
    training = chosen(training, table.features, part_of(training.targets.size(), split));
  }
  const std::vector<FeatureScale> scales = measure(training, table.features, options.standardise);
  complete(scales, wanted);
  return std::unique_ptr<Dataset>(
      std::make_unique<TableDataset>(std::move(wanted), encoding_of(table, scales)));
}

Result<std::unique_ptr<Dataset>> open_csv(const std::vector<std::filesystem::path>& train,
                                          const std::vector<std::filesystem::path>& test,
                                          const CsvOptions& options) {
  TALLY_CHECK(train.size() == 1 && test.size() <= 1);
  TALLY_TRY(const Bytes train_bytes, read_file(train[0], {.readers = options.readers}));
  const NamedBytes train_file{train_bytes, train[0].string()};
  if (test.empty()) return make_csv(train_file, nullptr, options);
  TALLY_TRY(const Bytes test_bytes, read_file(test[0], {.readers = options.readers}));
  const NamedBytes test_file{test_bytes, test[0].string()};
  return make_csv(train_file, &test_file, options);
}

Result<std::unique_ptr<Dataset>> open_csv_like(const std::filesystem::path& path,
                                               const TableEncoding& encoding, bool needs_target) {
  TALLY_TRY(const Bytes bytes, read_file(path));
  const NamedBytes file{bytes, path.string()};
  const CsvColumns table = columns_of(encoding);
  TALLY_TRY(const FileColumns columns, find_table_columns(file, table, needs_target));
  TALLY_TRY(Rows rows, read_rows(file, table, columns));
  std::vector<FeatureScale> scales;
  for (const ColumnEncoding& column : encoding.columns)
    scales.insert(scales.end(), column.features.begin(), column.features.end());
  complete(scales, rows);
  return std::unique_ptr<Dataset>(std::make_unique<TableDataset>(std::move(rows), encoding));
}

}  // namespace tally::data
