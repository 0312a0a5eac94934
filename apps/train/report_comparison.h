#pragma once
#include <string>
#include <vector>

#include "apps/train/report_reader.h"

namespace tally::app {

// Returns one self-contained HTML page about several runs: a table of their final figures and of
// the settings in which they differ, one chart per figure with a curve for each run, the settings
// that are equal, and the command lines.
std::string comparison_html(const std::vector<NamedRecord>& runs);

}  // namespace tally::app
