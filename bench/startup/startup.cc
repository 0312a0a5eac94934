#include "bench/startup/startup.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <sstream>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/errors.h"
#include "bench/common/statistics.h"
#include "bench/common/words.h"
#include "process/child_process.h"
#include "tally/job.h"

namespace tally::bench {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

void say(const char* what) {
  fmt::print("{} {}\n", what, SteadyClock().now().count());
  std::fflush(stdout);
}

// Returns the times after the word `what` in a transcript.
std::vector<TimePoint> moments(const std::string& output, const std::string& what) {
  std::vector<TimePoint> found;
  std::istringstream words(output);
  for (std::string word; words >> word;) {
    std::int64_t count = 0;
    if (word == what && words >> count) found.emplace_back(count);
  }
  return found;
}

// Returns the time from the start of the command to the last of `count` times.
Result<double> time_of(const std::vector<std::string>& command, const std::string& what,
                       std::size_t count, Duration timeout) {
  const SteadyClock clock;
  const TimePoint start = clock.now();
  TALLY_TRY(const std::string output, process::output_of(command, clock.after(timeout)));
  const std::vector<TimePoint> found = moments(output, what);
  if (found.size() == count) return seconds(*std::max_element(found.begin(), found.end()) - start);
  return system_failure("{} of {} ranks said \"{}\": {}", found.size(), count, what, output);
}

}  // namespace

Result<Report> measure_startup(const StartupOptions& options) {
  std::vector<double> first_sum;
  std::vector<double> program;
  for (int run = 0; run < options.runs; ++run) {
    TALLY_TRY(program.emplace_back(), time_of(words("{} startup-worker", options.tally), "entered",
                                              1, options.run_timeout));
    TALLY_TRY(first_sum.emplace_back(),
              time_of(words("{} run -n {} -- {} startup-worker", options.tally, options.ranks,
                            options.tally),
                      "reduced", static_cast<std::size_t>(options.ranks), options.run_timeout));
  }
  const double whole_s = median(first_sum);
  const double program_s = median(program);
  Report report;
  report.table = fmt::format(
      "{} ranks, {} cores, medians of {} runs\n"
      "  tally run to the first all-reduce  {:7.1f} ms  (half of the runs within {:.1f} ms)\n"
      "  start of the program itself        {:7.1f} ms\n"
      "  difference                         {:7.1f} ms\n",
      options.ranks, usable_cores(), options.runs, 1e3 * whole_s, 1e3 * spread(first_sum),
      1e3 * program_s, 1e3 * (whole_s - program_s));
  Json& line = report.lines.emplace_back();
  line["ranks"] = options.ranks;
  line["runs"] = options.runs;
  line["first_sum_s"] = whole_s;
  line["first_sum_spread_s"] = spread(first_sum);
  line["program_s"] = program_s;
  return report;
}

Result<void> run_startup_worker() {
  say("entered");
  TALLY_TRY(const std::unique_ptr<Job> job, Job::join());
  std::vector<float> value = {static_cast<float>(job->rank() + 1)};
  TALLY_TRY(job->world().allreduce(std::span(value)));
  say("reduced");
  const auto expected = static_cast<float>(job->size() * (job->size() + 1) / 2);
  if (value[0] != expected)
    return make_error(ErrorCode::kMismatch, "sum {} where {} is right", value[0], expected);
  job->close();
  return {};
}

}  // namespace tally::bench
