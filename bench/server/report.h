#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/common/report.h"
#include "bench/server/run.h"

namespace tally::bench::servers {

// Returns the medians of all runs, each beside the raw figure of the same run.
std::string table_text(const std::vector<Series>& all, const HostFacts& machine);
// One JSON line for each series and case.
void write_json(std::ostream& out, const std::vector<Series>& all, const HostFacts& machine);

}  // namespace tally::bench::servers
