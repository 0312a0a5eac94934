#include "apps/tally/bench_scaffold.h"

#include <fmt/format.h>

#include "apps/tally/build_info.h"
#include "process/interrupt.h"

namespace tally::app {

void add_json_option(Command& command, std::string* file, const std::string& per) {
  command.add("--json", file, fmt::format("Append one JSON line{}; - is stdout", per),
              {.value = "FILE"});
}

int run_bench(const std::string& name, const std::string& json,
              const std::function<Result<bench::Report>(process::Progress& progress)>& run,
              int invalid_code) {
  const process::InterruptGuard guard;
  const auto report = [&] {
    process::Progress progress;
    return run(progress);
  }();
  if (report) return publish(*report, name, kCommit, json);
  const bool invalid = report.error().code == ErrorCode::kInvalid;
  return fail("tally bench " + name, report.error(), invalid ? invalid_code : 1);
}

}  // namespace tally::app
