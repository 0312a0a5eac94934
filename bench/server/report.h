#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/server/contest.h"

namespace tally::bench::servers {

struct ReportContext {
  std::string commit;
  std::string host;
  int cores = 1;
};

// Medians of all runs, each beside the raw figure of the same run.
std::string table_text(const std::vector<Series>& all, const ReportContext& context);
// One JSON line for each series and case.
void write_json(std::ostream& out, const std::vector<Series>& all, const ReportContext& context);

}  // namespace tally::bench::servers
