#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "codec/choose.h"

namespace tally::exchange {

// The measurements of codec=auto, equal on all ranks.
struct CodecFigures {
  codec::WireCost wire;
  struct Bucket {
    double early_seconds = 0;                  // time from ready to the end of the backward pass
    std::vector<codec::Candidate> candidates;  // the first is uncompressed
  };
  std::vector<Bucket> buckets;  // in bucket order
};

struct CodecDecision {
  std::vector<std::size_t> chosen;   // by bucket: index into its candidates
  std::vector<std::string> reasons;  // by bucket
  // Predicted time from the end of the backward pass to the arrival of the last bucket: with the
  // chosen codecs, and with all buckets uncompressed.
  double late_seconds = 0;
  double plain_late_seconds = 0;
  std::size_t bytes = 0;  // of all buckets
};

// Chooses the codecs with which all buckets, sent one after the other, arrive as early as possible,
// or before the end of the backward pass. Among these it takes, for each bucket in turn, the first
// codec that leaves the following buckets their minimum time. A pure function.
CodecDecision decide(const CodecFigures& figures);

// The assignments that are worth a trial: how much codec time the backward pass hides depends on
// idle cores, which no measurement shows. The first assignment sends everything uncompressed. Up to
// `most` others follow, sorted by bytes; the one with the fewest bytes, which loses the most, is
// last. They are the result of decide(), the result of decide() if the backward pass hides nothing,
// and single codecs for all buckets that can use them, in the order of their time if nothing is
// hidden. A single codec that would then take longer than no compression is left out. A pure
// function.
std::vector<CodecDecision> finalists(const CodecFigures& figures, std::size_t most);

// "3 topk, 1 none"
std::string shares_of(const CodecFigures& figures, const CodecDecision& decision);
// "codec=auto: 118.2MB/s between hosts; of 12 buckets 10 topk, 2 none; ..."
std::string sentence_of(const CodecFigures& figures, const CodecDecision& decision);

}  // namespace tally::exchange
