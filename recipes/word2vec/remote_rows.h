#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "recipes/word2vec/chunk.h"

namespace tally::word2vec {

// Rows on other machines: two tables of rows of equal length, by word number. Threads: one.
class RowService {
 public:
  enum class Table : std::uint8_t { kInputs, kOutputs };
  virtual ~RowService() = default;

  // Returns current or recent rows, consecutively. `keys` are distinct.
  virtual Result<void> pull(Table table, std::span<const std::uint64_t> keys,
                            std::span<float> rows) = 0;
  // Adds to rows. Both spans stay unchanged until the next flush().
  virtual Result<void> add(Table table, std::span<const std::uint64_t> keys,
                           std::span<const float> rows) = 0;
  // One more chunk is done. May wait for workers that are far behind.
  virtual Result<void> tick() = 0;
  // Returns when all additions so far have arrived.
  virtual Result<void> flush() = 0;
  // This worker has finished training: others do not wait for it. Rows may still be pulled.
  virtual Result<void> finish() = 0;
};

// Trains on copies of the rows of a chunk, and sends their increments. Threads: one.
class RemoteRows final : public Rows {
 public:
  // The service is not owned.
  RemoteRows(RowService& service, std::size_t dimension);

  // Replaces the words of the chunk by the numbers of their copies.
  Result<RowTables> fetch(Chunk& chunk) override;
  Result<void> commit() override;

 private:
  // The copies of the rows of one table.
  struct Copies {
    std::vector<std::uint64_t> keys;
    std::vector<float> before;  // as received, packed
    std::vector<float> growth;  // to be sent, packed
    std::vector<float> values;  // with the stride of the kernels
  };
  Result<void> fetch(RowService::Table table, std::vector<WordId>& words, Copies& copies);
  Result<void> send(RowService::Table table, Copies& copies);
  float* aligned(std::vector<float>& values) const;

  RowService& service_;
  const std::size_t dimension_;
  const std::size_t stride_;
  Copies inputs_, outputs_;
  std::vector<WordId> places_;  // by word, the number of its copy plus one; 0: none
};

}  // namespace tally::word2vec
