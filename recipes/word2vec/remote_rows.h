#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "recipes/word2vec/rows.h"

namespace tally::word2vec {

// Rows that live somewhere else: two tables of rows of equal length, by the number of the word.
// Threads: one.
class RowService {
 public:
  enum class Table : std::uint8_t { kInputs, kOutputs };
  virtual ~RowService() = default;

  // Rows as they are now, or were not long ago, behind each other. `keys` are different from each
  // other.
  virtual Result<void> pull(Table table, std::span<const std::uint64_t> keys,
                            std::span<float> rows) = 0;
  // Adds to rows. Both spans stay as they are until the next call of flush().
  virtual Result<void> add(Table table, std::span<const std::uint64_t> keys,
                           std::span<const float> rows) = 0;
  // One more chunk is done. May wait for workers that are far behind.
  virtual Result<void> tick() = 0;
  // Ends when all that was added so far is there.
  virtual Result<void> flush() = 0;
  // This worker trains no more: nobody waits for it. Rows may still be pulled.
  virtual Result<void> finish() = 0;
};

// Trains on copies of the rows that a chunk needs, and sends what they grew by. Threads: one.
class RemoteRows final : public Rows {
 public:
  // The service is not owned.
  RemoteRows(RowService& service, std::size_t dimension);

  // Gives the words of the chunk the numbers of their copies.
  Result<RowTables> fetch(Chunk& chunk) override;
  Result<void> commit() override;

 private:
  // The copies of the rows of one table.
  struct Copies {
    std::vector<std::uint64_t> keys;
    std::vector<float> before;  // as they came, packed
    std::vector<float> growth;  // as they go, packed
    std::vector<float> values;  // with the stride of the kernels
  };
  Result<void> fetch(RowService::Table table, std::vector<WordId>& words, Copies& copies);
  Result<void> send(RowService::Table table, Copies& copies);
  float* aligned(std::vector<float>& values) const;

  RowService& service_;
  const std::size_t dimension_;
  const std::size_t stride_;
  Copies inputs_, outputs_;
  std::vector<WordId> places_;  // by word, one more than the number of its copy; 0: it has none
};

}  // namespace tally::word2vec
