#include "apps/tally/commands.h"

#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/tally/merged_trace.h"
#include "apps/tally/watch_target.h"
#include "base/counted.h"

namespace tally::app {
namespace {

constexpr const char* kInspectTraceFooter = R"(
Examples:
  tally inspect trace                       the last operations of all ranks, merged
  tally inspect trace digits --last 100
  tally inspect trace --output trace.json   for ui.perfetto.dev or chrome://tracing

Ranks keep their last 256 operations on each communicator, and the last 256 phases of a training:
forward, backward, update, and each bucket from its last gradient to its new values. Times are
those of the coordinator's clock; for other machines their error is at most half of the fastest
round trip.)";

constexpr auto kTracePatience = std::chrono::seconds(10);

struct InspectTraceOptions {
  WatchTarget target;
  std::string output;
  std::size_t last = 20;
};

Result<std::vector<group::Trace>> ask_traces(const InspectTraceOptions& options) {
  const Deadline by = Deadline::after(kTracePatience);
  TALLY_TRY(group::Observer observer, observe(options.target, by));
  return observer.traces(by);
}

int run_inspect_trace(const InspectTraceOptions& options) {
  const auto traces = ask_traces(options);
  if (!traces.has_value()) {
    fmt::print(stderr, "tally inspect trace: {}\n",
               explained(options.target, traces.error()).message);
    return 1;
  }
  if (traces->empty()) {
    fmt::print(stderr,
               "tally inspect trace: the job has no ranks: none has joined, or all have left\n");
    return 1;
  }
  const auto merged = merge(*traces);
  if (options.output.empty()) {
    fmt::print("{}", trace_listing(merged, options.last));
    return 0;
  }
  std::ofstream file(options.output);
  file << chrome_trace(merged).dump() << "\n";
  file.close();
  if (!file) {
    fmt::print(stderr, "tally inspect trace: cannot write {}\n", options.output);
    return 1;
  }
  fmt::print("{} of {} in {}: open it in ui.perfetto.dev\n", counted(merged.size(), "operation"),
             counted(traces->size(), "rank"), options.output);
  return 0;
}

}  // namespace

void add_inspect_trace_command(Command inspect) {
  Command command = inspect.add_command(
      "trace", "The last operations of all ranks of a running job on one time axis");
  command.footer(kInspectTraceFooter);
  const auto o = std::make_shared<InspectTraceOptions>();
  add_target_options(command, o->target);
  command.add("--output", &o->output, "Write Chrome/Perfetto trace JSON to FILE",
              {.value = "FILE"});
  command.add("--last", &o->last, "Operations of each rank to list", {.least = 1});
  command.action([o] { return run_inspect_trace(*o); });
}

}  // namespace tally::app
