#include "recipes/word2vec/remote_rows.h"

#include <algorithm>
#include <cstdint>

#include "kernel/skipgram/skipgram.h"

namespace tally::word2vec {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

RemoteRows::RemoteRows(RowService& service, std::size_t dimension)
    : service_(service), dimension_(dimension), stride_(kernel::skipgram_stride(dimension)) {}

// Returns the first aligned value; the vector has room for one alignment more.
float* RemoteRows::aligned(std::vector<float>& values) const {
  const auto address = reinterpret_cast<std::uintptr_t>(values.data());
  return values.data() + (kAlignment - address % kAlignment) % kAlignment / sizeof(float);
}

Result<RowTables> RemoteRows::fetch(Chunk& chunk) {
  // Previous updates must have been sent.
  TALLY_TRY(service_.flush());
  TALLY_TRY(fetch(RowService::Table::kInputs, chunk.inputs, inputs_));
  TALLY_TRY(fetch(RowService::Table::kOutputs, chunk.outputs, outputs_));
  return RowTables{
      .inputs = aligned(inputs_.values), .outputs = aligned(outputs_.values), .stride = stride_};
}

Result<void> RemoteRows::fetch(RowService::Table table, std::vector<WordId>& words,
                               Copies& copies) {
  copies.keys.clear();
  for (WordId& word : words) {
    if (word >= places_.size()) places_.resize(std::size_t{word} + 1, 0);
    WordId& place = places_[word];
    if (place == 0) {
      copies.keys.push_back(word);
      place = static_cast<WordId>(copies.keys.size());
    }
    word = place - 1;
  }
  for (const std::uint64_t key : copies.keys) places_[key] = 0;

  copies.before.resize(copies.keys.size() * dimension_);
  TALLY_TRY(service_.pull(table, copies.keys, copies.before));
  copies.values.assign(copies.keys.size() * stride_ + kAlignment / sizeof(float), 0.0F);
  float* const values = aligned(copies.values);
  for (std::size_t row = 0; row < copies.keys.size(); ++row)
    std::copy_n(copies.before.data() + row * dimension_, dimension_, values + row * stride_);
  return {};
}

Result<void> RemoteRows::commit() {
  TALLY_TRY(send(RowService::Table::kInputs, inputs_));
  TALLY_TRY(send(RowService::Table::kOutputs, outputs_));
  return service_.tick();
}

Result<void> RemoteRows::send(RowService::Table table, Copies& copies) {
  const float* const values = aligned(copies.values);
  copies.growth.resize(copies.before.size());
  for (std::size_t row = 0; row < copies.keys.size(); ++row)
    for (std::size_t i = 0; i < dimension_; ++i)
      copies.growth[row * dimension_ + i] =
          values[row * stride_ + i] - copies.before[row * dimension_ + i];
  return service_.add(table, copies.keys, copies.growth);
}

}  // namespace tally::word2vec
