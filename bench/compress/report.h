#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/compress/contest.h"

namespace tally::bench::compress {

struct ReportContext {
  std::string commit;
  std::string host;
  int cores = 1;
  int threads = 1;
};

// What is asked of codecs, and what was seen. Met if `seen` is at least `wanted`.
struct Target {
  std::string what;
  double wanted = 0;
  double seen = 0;
  bool met() const { return seen >= wanted; }
};
// The best codec over the first plan at 1gbit on mlp; auto over the best and over the first plan,
// everywhere. Of what was measured.
std::vector<Target> targets_of(const Contest& contest);

std::string table_text(const Contest& contest, const ReportContext& context);
// One JSON object per line for each model, link and plan.
void write_json(std::ostream& out, const Contest& contest, const ReportContext& context);

}  // namespace tally::bench::compress
