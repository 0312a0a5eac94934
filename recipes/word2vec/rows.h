#pragma once
#include <cstddef>

#include "recipes/word2vec/chunk.h"
#include "tally/error.h"

namespace tally::word2vec {

// The rows that a chunk names: row n of a table begins at n * stride. Aligned to 64 bytes, padded
// with zeros (see kernel/skipgram/skipgram.h).
struct RowTables {
  float* inputs = nullptr;
  float* outputs = nullptr;
  std::size_t stride = 0;
};

// Storage of the rows: memory that all workers of a host share, or parameter servers. Threads: one.
class Rows {
 public:
  virtual ~Rows() = default;

  // Makes the rows of a chunk ready for reading and writing. May replace the words of the chunk by
  // row numbers. One chunk at a time.
  virtual Result<RowTables> fetch(Chunk& chunk) = 0;
  // The rows of the last fetch() have been trained.
  virtual Result<void> commit() = 0;
};

}  // namespace tally::word2vec
