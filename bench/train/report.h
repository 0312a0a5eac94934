#pragma once
#include <iosfwd>
#include <optional>
#include <string>

#include "bench/common/report.h"
#include "bench/train/comparison.h"

namespace tally::bench::train {

// Facts that the lines of a result have beside the figures.
struct ReportContext {
  HostFacts machine = {};
  int threads = 1;
  std::size_t bucket_bytes = 0;
};

// Units per second at the median step; nothing where nothing was measured.
std::optional<double> units_per_second(const Measurement& measurement);

// How `measurement` stands beside others of its model.
struct Standing {
  std::optional<double> over_ddp;    // its units per second over those of ddp with as many ranks
  std::optional<double> efficiency;  // over as many times those of `single` as it has ranks
};
Standing standing(const Measurement& measurement, const Comparison& comparison);

std::string table_text(const Comparison& comparison, const ReportContext& context);

// One JSON object per line for each contender and model that was measured.
void write_json(std::ostream& out, const Comparison& comparison, const ReportContext& context);

}  // namespace tally::bench::train
