#pragma once
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "codec/codec.h"
#include "plan/codec_spec.h"

namespace tally::exchange {

// A trial of one run of values. The spec passes check(), and is not powersgd, dgc or onebit-adam.
struct TrialOptions {
  const plan::CodecSpec& spec;
  codec::Shape shape;
  int senders = 2;  // in the job
  std::uint64_t seed = 1;
};

// The cost of a codec per sender, for values of which each sender owns its share. Time in seconds
// of one core.
struct TrialCosts {
  double seconds = 0;      // to encode, to make and encode its share of the means, to decode all
  double there_bytes = 0;  // of one encoded gradient
  double back_bytes = 0;   // of the encoded mean
  bool fixed_size = false;
};

// Encodes and decodes `values` there and back as a job does, twice, and returns the shorter time:
// the first pass also allocates memory. The gradients of the other senders are rotated copies of
// `values`: equally large, at other positions. `values` must not be empty.
TrialCosts try_codec(const TrialOptions& options, std::span<const float> values,
                     const Clock& clock);

// The same for powersgd and a matrix with factors of `rank` columns. The sender's own factors stand
// for the means. `values` holds the first rows, row by row; bytes are those of the factors.
struct MatrixTrial {
  std::size_t rows = 0;  // at least one
  std::size_t columns = 0;
  int rank = 2;
  std::uint64_t seed = 1;
};
TrialCosts try_powersgd(const MatrixTrial& trial, std::span<const float> values,
                        const Clock& clock);

}  // namespace tally::exchange
