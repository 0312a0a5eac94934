#pragma once
#include <cstddef>

#include "recipes/word2vec/chunk.h"
#include "tally/error.h"

namespace tally::word2vec {

// The rows of all words, as far as a chunk names them: row number n of a table begins at n *
// stride. Aligned to 64 bytes, padded with zeros (see kernel/skipgram/skipgram.h).
struct RowTables {
  float* inputs = nullptr;
  float* outputs = nullptr;
  std::size_t stride = 0;
};

// Where the rows live: in memory that all workers of a host share, or with parameter servers.
// Threads: one.
class Rows {
 public:
  virtual ~Rows() = default;

  // Makes the rows of a chunk ready to be read and written. May give the words of the chunk other
  // numbers, which are then those of their rows. One chunk at a time.
  virtual Result<RowTables> fetch(Chunk& chunk) = 0;
  // The rows that the last fetch() gave have been trained.
  virtual Result<void> commit() = 0;
};

}  // namespace tally::word2vec
