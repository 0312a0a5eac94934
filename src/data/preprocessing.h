#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "data/dataset.h"
#include "data/image.h"
#include "data/text.h"

namespace tally::data {

// A feature of a table becomes (value - mean) / deviation, where `missing` is the value of a
// missing number.
struct FeatureScale {
  double missing = 0;
  double mean = 0;
  double deviation = 1;
};

// A column of a table. A numeric column is one feature. A text column is one feature per category:
// 1 if the field has this text, otherwise 0.
struct ColumnEncoding {
  std::string name;
  std::vector<std::string> categories;  // empty: numeric; of the target: the classes
  std::vector<FeatureScale> features;   // none for the target
};
struct TableEncoding {
  std::vector<ColumnEncoding> columns;  // in the order of the training file
  std::size_t target = 0;               // index of the target column
};
struct ImageEncoding {
  PixelScale scale;
};
struct TextEncoding {
  TextLevel level = TextLevel::kCharacter;
};
// Rows of a libsvm file as dense vectors.
struct VectorEncoding {};
// A column of a table of the user's own that is read as keys, see keyed_columns.h.
struct KeyedColumn {
  enum class Kind : std::uint8_t {
    kText,    // one slot: the text as the category
    kWhole,   // two slots: the whole number as the category, and the value
    kNumber,  // two slots: the bucket as the category, and the value
  };
  std::string name;
  Kind kind = Kind::kText;
  // Of the value of a number, over the training part.
  double mean = 0;
  double deviation = 1;
  // kNumber: the bucket of a number is the count of bounds that are not above it. Ascending.
  std::vector<double> bounds;
};
// Rows of keys, see keyed.h.
struct KeyedEncoding {
  std::vector<std::string> fields;  // by slot; empty: slots without names
  // In the order of the training file; empty for tables with a format of their own.
  std::vector<KeyedColumn> columns;
  std::size_t target = 0;  // index of the target column; only its name is used
};

// Targets of regression become (value - mean) / deviation.
struct TargetScale {
  double mean = 0;
  double deviation = 1;
};

// How files became the samples of a dataset. It contains every number and name that was taken from
// the training part, so a trained model can get further inputs that are prepared in the same way.
struct Preprocessing {
  SampleShape shape;
  std::vector<std::string> classes;  // see Dataset::classes()
  std::variant<std::monostate, ImageEncoding, TableEncoding, TextEncoding, VectorEncoding,
               KeyedEncoding>
      encoding;  // monostate: the samples came from no file
  TargetScale target_scale = {};
};

}  // namespace tally::data
