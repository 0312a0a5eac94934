#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/subset.h"

namespace tally::data {

// Samples that are few keys out of very many: rows of click logs and tables of categories, and
// sparse vectors.
//
// A sample is int64 [2, slots]. Row 0 has keys, from 0, or -1 where a slot is empty; row 1 the
// value of each key as the bits of a float64, 1 for a category, 0 in an empty slot. The target is a
// label, 0 or 1.
//
// A table has a slot per field, each with a name; a key is a hash of field and category, so it
// needs no dictionary and is the same in any file. A number may have two: its bucket as a category,
// and a key of the field with the number as value. Sparse vectors have slots without names, as many
// as the longest row has entries; keys are their indices.

inline constexpr std::int64_t kNoKey = -1;
// Entries, empty slots included, of all rows of a file.
inline constexpr std::uint64_t kMaxKeyedEntries = std::uint64_t{1} << 31;

// The key of a category of a field; 63 bits.
std::int64_t key_of(std::string_view field, std::string_view category);

// 0, 1, 2, ... for counts 0, 1, 2 to 3, 4 to 7, ...; negative ones are -1, -2, ... likewise.
int log2_bucket(double count);

// Rows behind each other, each as long as it is.
struct KeyedRows {
  std::vector<std::string> fields;       // a name per slot; none: slots have no meaning
  std::vector<std::uint64_t> starts{0};  // of each row in the two below, and the end of the last
  std::vector<std::int64_t> keys;
  std::vector<float> values;
  std::vector<std::uint8_t> labels;  // 0 or 1
  std::vector<std::string> classes;  // what 0 and 1 mean

  void add(std::int64_t key, float value = 1.0F);
  void add_empty() { add(kNoKey, 0.0F); }
  void end_row(bool label);
  std::uint64_t size() const { return labels.size(); }
  // Entries of the longest row.
  std::uint64_t longest() const;
};

// These rows in this order, as one.
KeyedRows chosen(const KeyedRows& rows, const std::vector<std::uint64_t>& indices);

class KeyedDataset final : public Dataset {
 public:
  // `slots` is at least rows.longest().
  KeyedDataset(KeyedRows rows, std::uint64_t slots);

  std::uint64_t size() const override { return rows_.size(); }
  const SampleShape& shape() const override { return shape_; }
  std::vector<std::string> classes() const override { return rows_.classes; }
  Result<void> read(std::uint64_t index, Rng& augment, std::span<std::byte> input,
                    std::span<std::byte> target) const override;
  const std::vector<std::string>& fields() const { return rows_.fields; }

 private:
  const KeyedRows rows_;
  SampleShape shape_;
};

}  // namespace tally::data
