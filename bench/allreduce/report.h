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

// Returns medians by contender and size; then tally's time over that of Gloo and of the better MPI,
// and the floor over tally's time.
std::string table_text(const Comparison& comparison, const ReportContext& context);

// One JSON object per line for each contender and size that was measured.
void write_json(std::ostream& out, const Comparison& comparison, const ReportContext& context);

}  // namespace tally::bench
