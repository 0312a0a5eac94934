#include "recipes/word2vec/sgns.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace tally::word2vec {
namespace {

constexpr double kLeastShare = 1e-4;
// The loss of one centre in this many is computed.
constexpr std::size_t kLossEvery = 64;
// Rows are prefetched this many centres ahead.
constexpr std::size_t kAhead = 2;

struct Pointers {
  float* inputs[kernel::kSkipgramRows];
  float* outputs[kernel::kSkipgramRows];
};

void prefetch_row(const float* row, std::size_t stride) {
  for (std::size_t i = 0; i < stride; i += 16) __builtin_prefetch(row + i, 1);
}

// All inputs but the last few were used by the previous centre.
void prefetch(const Chunk& chunk, const Centre& centre, const RowTables& rows) {
  const std::size_t last = centre.first_input + centre.input_count - 1;
  prefetch_row(rows.inputs + chunk.inputs[last] * rows.stride, rows.stride);
  for (std::uint32_t o = 0; o < centre.output_count; ++o)
    prefetch_row(rows.outputs + chunk.outputs[centre.first_output + o] * rows.stride, rows.stride);
}

kernel::SkipgramBatch batch_of(const Chunk& chunk, const Centre& centre, const RowTables& rows,
                               float rate, Pointers& pointers) {
  for (std::uint32_t i = 0; i < centre.input_count; ++i)
    pointers.inputs[i] = rows.inputs + chunk.inputs[centre.first_input + i] * rows.stride;
  for (std::uint32_t o = 0; o < centre.output_count; ++o)
    pointers.outputs[o] = rows.outputs + chunk.outputs[centre.first_output + o] * rows.stride;
  return {.inputs = pointers.inputs,
          .input_count = centre.input_count,
          .outputs = pointers.outputs,
          .output_count = centre.output_count,
          .stride = rows.stride,
          .rate = rate};
}

}  // namespace

static_assert(2 * kMaxWindow <= kernel::kSkipgramRows && kMaxNegatives < kernel::kSkipgramRows);

float rate_at(double rate, std::uint64_t done, std::uint64_t total) {
  const double share = 1 - static_cast<double>(done) / (static_cast<double>(total) + 1);
  return static_cast<float>(rate * std::max(share, kLeastShare));
}

ChunkLoss Sgns::train(const Chunk& chunk, const RowTables& rows, float rate) {
  const auto step = kernel::skipgram_kernels().step;
  ChunkLoss loss;
  Pointers pointers;
  for (std::size_t c = 0; c < chunk.centres.size(); ++c) {
    const Centre& centre = chunk.centres[c];
    if (c + kAhead < chunk.centres.size()) prefetch(chunk, chunk.centres[c + kAhead], rows);
    const kernel::SkipgramBatch batch = batch_of(chunk, centre, rows, rate, pointers);
    step(batch, gradients_);
    if (c % kLossEvery != 0) continue;
    loss.sum += kernel::skipgram_loss(batch, gradients_);
    loss.pairs += std::uint64_t{centre.input_count};
  }
  return loss;
}

}  // namespace tally::word2vec
