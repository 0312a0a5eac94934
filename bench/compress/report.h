#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/common/report.h"
#include "bench/compress/comparison.h"

namespace tally::bench::compress {

inline constexpr double kBytesPerMegabyte = 1e6;

struct ReportContext {
  HostFacts machine = {};
  int threads = 1;
};

// A required and a measured ratio. Met if `seen` is at least `wanted`.
struct Target {
  std::string what;
  double wanted = 0;
  double seen = 0;
  bool met() const { return seen >= wanted; }
};
// Returns the ratios of the best codec to the first plan at 1gbit on mlp, and of auto to the best
// and to the first plan everywhere, as far as measured.
std::vector<Target> targets_of(const PlanComparison& comparison);

std::string table_text(const PlanComparison& comparison, const ReportContext& context);
// One JSON object per line for each model, link and plan.
void write_json(std::ostream& out, const PlanComparison& comparison, const ReportContext& context);

}  // namespace tally::bench::compress
