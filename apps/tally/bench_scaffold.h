#pragma once
#include <functional>
#include <string>

#include "apps/tally/command_line.h"
#include "bench/common/report.h"
#include "process/progress.h"

// Shared by all commands `tally bench NAME`.
namespace tally::app {

// Adds --json. `per`: what has a line of its own, as in "per contender and size"; may be empty.
void add_json_option(Command& command, std::string* file, const std::string& per);

// Runs the benchmark `name`: records interruptions, shows the progress of `run` on stderr, and
// publishes its report with the file of --json. Returns the exit code: that of publish(), or after
// an error `invalid_code` for kInvalid and 1 for others.
int run_bench(const std::string& name, const std::string& json,
              const std::function<Result<bench::Report>(process::Progress& progress)>& run,
              int invalid_code = 1);

}  // namespace tally::app
