#pragma once
#include <cstdint>

#include "kernel/skipgram/skipgram.h"
#include "recipes/word2vec/chunk.h"

namespace tally::word2vec {

// Returns the learning rate, which decreases linearly from `rate` to a ten-thousandth of it while
// `done` of `total` words are trained.
float rate_at(double rate, std::uint64_t done, std::uint64_t total);

struct ChunkLoss {
  double sum = 0;
  std::uint64_t pairs = 0;  // sampled pairs
};

// Trains chunks on rows. Threads: one.
class Sgns final {
 public:
  // Trains the centres of the chunk in order.
  ChunkLoss train(const Chunk& chunk, const RowTables& rows, float rate);

 private:
  kernel::SkipgramGradients gradients_ = {};
};

}  // namespace tally::word2vec
