#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "plan/codec_spec.h"

namespace tally::codec {

// What codec=auto does for a bucket: it predicts what each candidate would cost on the wire that
// was measured. A pure function: ranks that give the same numbers choose the same, so they agree on
// numbers first.

struct WireCost {
  double seconds_per_byte = 0;
  double seconds_per_message = 0;
};

struct BucketFacts {
  std::size_t bucket = 0;  // its number, for the reason
  // What can be hidden behind computing: how long the backward pass goes on once this bucket is
  // ready, less what buckets before it still need of that time.
  double hidden_seconds = 0;
};

// Measured, or known by its traits, for this bucket.
struct Candidate {
  std::string text;       // "int8"
  std::size_t bytes = 0;  // what one unit sends, there and back
  std::size_t messages = 2;
  double codec_seconds = 0;  // encoding and decoding, there and back
};

// From the bucket's being ready until its mean is there: encoding, the wire, decoding, one after
// the other.
double predicted_seconds(const WireCost& wire, const Candidate& candidate);

struct CodecChoice {
  std::size_t index = 0;
  double seconds = 0;  // predicted
  std::string reason;  // "bucket 3: int8, 4.1 ms instead of 12.8 ms at 118 MB/s"
};

// Why one of them may be taken: how long it is predicted to take, and what the others would.
std::string reason_of(const WireCost& wire, const BucketFacts& facts,
                      std::span<const Candidate> candidates, std::size_t chosen);

// Candidates stand in the order of what they lose, the first (none) loses nothing; there is at
// least one. Of those after which a step is over within 3 % of the earliest time, the first; what
// is hidden counts as the time of computing. One whose numbers are not finite, or negative, is not
// chosen; the first, if all are like that.
CodecChoice choose_codec(const WireCost& wire, const BucketFacts& facts,
                         std::span<const Candidate> candidates);

// Which of several ways to take, by the time that steps took with each: of those within 3 % of the
// shortest the first. Times that are not finite or not positive are none; the first way, if there
// are no others.
std::size_t fastest_of(std::span<const double> step_seconds);

// The texts of what an auto spec chooses from, "none" first, then in the order of its list or of
// auto's own: bf16, int8, qsgd, sign, powersgd:2, topk:0.01 and topk:0.001, as to_string() prints
// them.
std::vector<std::string> candidates_of(const plan::CodecSpec& spec);

}  // namespace tally::codec
