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
  // After the backward pass, until the last bucket is there: as predicted, and if all travelled as
  // they are.
  double late_seconds = 0;
  double plain_late_seconds = 0;
  std::size_t bytes = 0;  // that all buckets take
};

// The codecs with which all buckets, one behind the other, are there as early as possible, or
// before the backward pass is over; of those, for each bucket in turn, the first one that leaves
// its successors the time they need at least. A pure function.
CodecDecision decide(const CodecFigures& figures);

// What is worth being tried in earnest: how much of the codecs' time computing hides depends on how
// many cores are at leisure, which no figure says. The first sends everything as it is. Then up to
// `most` others, that of fewest bytes, which loses most, last: what decide() takes, what it takes
// if computing hides nothing, and one codec for all buckets that can have it, by its time if
// nothing is hidden; none that would take longer than everything as it is, if nothing is hidden. A
// pure function.
std::vector<CodecDecision> finalists(const CodecFigures& figures, std::size_t most);

// "3 topk, 1 none"
std::string shares_of(const CodecFigures& figures, const CodecDecision& decision);
// "codec=auto: 118.2MB/s between hosts; of 12 buckets 10 topk, 2 none; ..."
std::string sentence_of(const CodecFigures& figures, const CodecDecision& decision);

}  // namespace tally::train
