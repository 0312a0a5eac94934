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

// Returns units per second at the median step; nothing without measurements.
std::optional<double> units_per_second(const Measurement& measurement);

// `measurement` relative to others of its model.
struct Standing {
  std::optional<double> over_ddp;    // relative to ddp with as many ranks
  std::optional<double> efficiency;  // relative to `single` times the number of ranks
};
Standing standing(const Measurement& measurement, const Comparison& comparison);

std::string table_text(const Comparison& comparison, const ReportContext& context);

// One JSON object per line for each contender and model that was measured.
void write_json(std::ostream& out, const Comparison& comparison, const ReportContext& context);

}  // namespace tally::bench::train
