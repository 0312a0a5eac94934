#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/preprocessing.h"
#include "data/subset.h"

namespace tally::data {

// Sparse samples, each with a few keys out of very many: rows of click logs, rows of categorical
// tables, and sparse vectors.
//
// A sample is a tensor int64 [2, slots]. Row 0 has the keys, which are not negative; an empty slot
// has kNoKey. Row 1 has the value of each key as the bits of a float64: 1 for a category, 0 in an
// empty slot. The target is a label, 0 or 1.
//
// Click logs and categorical tables have one named slot per field. A key is a hash of field and
// category: it needs no dictionary, and a category has the same key in all files. A numeric field
// may use two slots: one has the key of the number's bucket, as a category; the other has a key of
// the field, with the number as the value. Sparse vectors have unnamed slots, as many as the
// longest row has entries; their keys are the indices.

inline constexpr std::int64_t kNoKey = -1;
// Most entries that the rows of one file may have in total, empty slots included.
inline constexpr std::uint64_t kMaxKeyedEntries = std::uint64_t{1} << 31;

// A hash of a text that needs no dictionary: FNV-1a of its bytes.
std::uint64_t text_hash(std::string_view text);

// The 63-bit key of a category of a field: the upper bits of mix(text_hash(field),
// text_hash(category)).
std::int64_t key_of(std::string_view field, std::string_view category);

// Bucket 0 for counts in [0, 1), 1 for [1, 2), 2 for [2, 4), 3 for [4, 8), ...; for negative counts
// -1 for (-2, 0), -2 for (-4, -2], -3 for (-8, -4], ...
int log2_bucket(double count);

// The entries (key and value) of all rows, one row after the other; rows may have different
// lengths. add() appends an entry to the current row, and end_row() ends the row.
struct KeyedRows {
  KeyedEncoding encoding;
  // Start of each row in `keys` and `values`, and the end of the last row.
  std::vector<std::uint64_t> starts{0};
  std::vector<std::int64_t> keys;
  std::vector<float> values;
  std::vector<std::uint8_t> labels;  // 0 or 1
  std::vector<std::string> classes;  // names of the labels 0 and 1

  void add(std::int64_t key, float value = 1.0F);
  void add_empty() { add(kNoKey, 0.0F); }
  void end_row(bool label);
  std::uint64_t size() const { return labels.size(); }
  // Number of entries of the longest row.
  std::uint64_t longest() const;
};

// Copies the rows with these indices, in this order.
KeyedRows chosen(const KeyedRows& rows, const std::vector<std::uint64_t>& indices);

// Samples from rows; a row with fewer entries than `slots` is filled up with empty slots.
class KeyedDataset final : public Dataset {
 public:
  // `slots` is at least rows.longest().
  KeyedDataset(KeyedRows rows, std::uint64_t slots);

  std::uint64_t size() const override { return rows_.size(); }
  const SampleShape& shape() const override { return shape_; }
  std::vector<std::string> classes() const override { return rows_.classes; }
  Preprocessing preprocessing() const override;
  Result<void> read(std::uint64_t index, Rng& augment, std::span<std::byte> input,
                    std::span<std::byte> target) const override;
  const std::vector<std::string>& fields() const { return rows_.encoding.fields; }

 private:
  const KeyedRows rows_;
  SampleShape shape_;
};

}  // namespace tally::data
