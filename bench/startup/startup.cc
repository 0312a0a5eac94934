#include "bench/startup/startup.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <sstream>

#include <fmt/format.h>

#include "base/clock.h"
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
  return Error{
      .code = ErrorCode::kSystem,
      .message = fmt::format("{} of {} ranks said \"{}\": {}", found.size(), count, what, output)};
}

}  // namespace

Result<StartupTimes> measure_startup(const StartupOptions& options) {
  const std::vector<std::string> worker = {options.tally, "startup-worker"};
  std::vector<std::string> job = {options.tally, "run", "-n", std::to_string(options.ranks), "--"};
  job.insert(job.end(), worker.begin(), worker.end());
  StartupTimes times;
  for (int run = 0; run < options.runs; ++run) {
    TALLY_TRY(times.program.emplace_back(), time_of(worker, "entered", 1, options.run_timeout));
    TALLY_TRY(
        times.first_sum.emplace_back(),
        time_of(job, "reduced", static_cast<std::size_t>(options.ranks), options.run_timeout));
  }
  return times;
}

Result<void> run_startup_worker() {
  say("entered");
  TALLY_TRY(const std::unique_ptr<Job> job, Job::join());
  std::vector<float> value = {static_cast<float>(job->rank() + 1)};
  TALLY_TRY(job->world().allreduce(std::span(value)));
  say("reduced");
  const auto expected = static_cast<float>(job->size() * (job->size() + 1) / 2);
  if (value[0] != expected)
    return Error{.code = ErrorCode::kMismatch,
                 .message = fmt::format("sum {} where {} is right", value[0], expected)};
  job->close();
  return {};
}

}  // namespace tally::bench
