#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "plan/codec_spec.h"

namespace tally::codec {

// codec=auto predicts for each bucket the time of each candidate on the measured network. All
// functions are pure: ranks with the same numbers choose the same candidate, so they agree on the
// numbers first.

struct WireCost {
  double seconds_per_byte = 0;
  double seconds_per_message = 0;
};

struct BucketFacts {
  std::size_t bucket = 0;  // its number, for the reason
  // The time that can be hidden behind computation: from this bucket's being ready until the end of
  // the backward pass, less the time that earlier buckets still need.
  double hidden_seconds = 0;
};

// A candidate's costs for this bucket, measured or known by its traits.
struct Candidate {
  std::string text;       // "int8"
  std::size_t bytes = 0;  // what one unit sends, there and back
  std::size_t messages = 2;
  double codec_seconds = 0;  // encoding and decoding, there and back
};

// The time of encoding, transfer and decoding, one after the other.
double predicted_seconds(const WireCost& wire, const Candidate& candidate);

struct CodecChoice {
  std::size_t index = 0;
  double seconds = 0;  // predicted
  std::string reason;  // "bucket 3: int8, 4.1 ms instead of 12.8 ms at 118 MB/s"
};

// The reason for a choice: its predicted time and that of the others.
std::string reason_of(const WireCost& wire, const BucketFacts& facts,
                      std::span<const Candidate> candidates, std::size_t chosen);

// Candidates are in the order of their loss of precision; the first (none) loses nothing. There is
// at least one. Chooses the first candidate after which the step is finished within 3 % of the
// earliest time; hidden time counts as computation. A candidate whose numbers are not finite or
// negative is not chosen; if all are, the first is.
CodecChoice choose_codec(const WireCost& wire, const BucketFacts& facts,
                         std::span<const Candidate> candidates);

// The candidate to keep, by the measured step time with each: the first within 3 % of the shortest.
// Times that are not finite or not positive are ignored; without any other the first candidate is
// kept.
std::size_t fastest_of(std::span<const double> step_seconds);

// The candidates of an auto spec as texts, "none" first, then in the order of its list or of the
// default list: bf16, int8, qsgd and powersgd:4, which docs/codecs.md recommends for sgd.
std::vector<std::string> candidates_of(const plan::CodecSpec& spec);

}  // namespace tally::codec
