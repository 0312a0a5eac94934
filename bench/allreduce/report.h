#pragma once
#include <iosfwd>
#include <string>

#include "bench/allreduce/comparison.h"
#include "bench/common/report.h"

namespace tally::bench {

// Facts that the lines of a result have beside the figures.
struct ReportContext {
  HostFacts machine = {};
  int ranks = 2;
  std::string algorithm = {};
};

// Medians by contender and size; then our time over Gloo's and over that of the better MPI, and the
// floor's over ours.
std::string table_text(const Comparison& comparison, const ReportContext& context);

// One JSON object per line for each contender and size that was measured.
void write_json(std::ostream& out, const Comparison& comparison, const ReportContext& context);

}  // namespace tally::bench
