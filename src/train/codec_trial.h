#pragma once
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "codec/codec.h"
#include "plan/codec_spec.h"

namespace tally::train {

// What is tried: one run of values with the codec of a spec that passes check(), and is neither
// powersgd, dgc nor onebit-adam.
struct TrialOptions {
  const plan::CodecSpec& spec;
  codec::Shape shape;
  int senders = 2;  // in the job
  std::uint64_t seed = 1;
};

// What a codec costs each sender for values of which it owns its share. Time in seconds of one
// core.
struct TrialCosts {
  double seconds = 0;      // encoding, its share of the means and of their way back, decoding all
  double there_bytes = 0;  // of the encoding
  double back_bytes = 0;   // of the mean's
  bool fixed_size = false;
};

// Encodes and decodes `values` there and back as a job does, twice, the first time to have memory
// at hand. Other senders' gradients are these ones turned round: as large, elsewhere. `values` has
// at least one.
TrialCosts try_codec(const TrialOptions& options, std::span<const float> values,
                     const Clock& clock);

// The same for powersgd and a matrix: factors of `rank` columns, whose means are the senders' own.
// `values` are its first rows, row by row; bytes are those of the factors.
struct MatrixTrial {
  std::size_t rows = 0;  // at least one
  std::size_t columns = 0;
  int rank = 2;
  std::uint64_t seed = 1;
};
TrialCosts try_powersgd(const MatrixTrial& trial, std::span<const float> values,
                        const Clock& clock);

}  // namespace tally::train
