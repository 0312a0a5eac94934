#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "codec/choose.h"

namespace tally::train {

// What codec=auto has measured, the same numbers on all ranks.
struct CodecFigures {
  codec::WireCost wire;
  struct Bucket {
    double early_seconds = 0;                  // before the end of the backward pass it was ready
    std::vector<codec::Candidate> candidates;  // the first: as it is
  };
  std::vector<Bucket> buckets;  // in their order
};

struct CodecDecision {
  std::vector<std::size_t> chosen;   // by bucket: which of its candidates
  std::vector<std::string> reasons;  // by bucket
  // After the backward pass, until the last bucket is there: as predicted, and if all travelled as they are.
  double late_seconds = 0;
  double plain_late_seconds = 0;
};

// The codecs with which all buckets, one behind the other, are there as early as possible, or before the backward pass is over; of those, for
// each bucket in turn, the first one that leaves its successors the time they need at least. A pure function.
CodecDecision decide(const CodecFigures& figures);

// "codec=auto: 118.2MB/s between hosts; of 12 buckets 10 topk, 2 none; ..."
std::string sentence_of(const CodecFigures& figures, const CodecDecision& decision);

}  // namespace tally::train
