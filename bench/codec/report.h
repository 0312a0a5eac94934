#pragma once
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "bench/codec/measure.h"
#include "bench/common/report.h"

namespace tally::bench::codecs {

// Returns the default codecs: every codec with its defaults, and some with entropy stages.
std::vector<std::string> usual_codecs();

struct Results {
  std::vector<Measurement> codecs;
  std::vector<StageMeasurement> stages;
};

struct ReportContext {
  HostFacts machine = {};
  std::string level = {};  // the widest vector instructions in use
  int repeats = 1;
};

// Required and measured speed of a codec.
struct Target {
  std::string what;
  double wanted = 0;
  double seen = 0;
  bool is_share = true;  // relative to a memory copy; else GB/s
  bool met() const { return seen >= wanted; }
};
// Returns the targets of measured codecs, on the first input.
std::vector<Target> targets_of(const Results& results);

std::string table_text(const Results& results, const ReportContext& context);
// One JSON object per line for each codec and input, and for each stage.
void write_json(std::ostream& out, const Results& results, const ReportContext& context);

}  // namespace tally::bench::codecs
