#include "apps/tally/watch_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>

#include "base/errors.h"
#include "group/local_access.h"
#include "group/reporter.h"

namespace tally::app {

void add_target_options(Command& command, WatchTarget& target) {
  command.add("job", &target.job, "Name of one of your jobs on this machine", {.value = "JOB"});
  command.add("--coordinator", &target.coordinator,
              "Address of the coordinator of a job on another machine", {.value = "HOST:PORT"});
  command.add("--secret-file", &target.secret_file, "File with the secret of that job",
              {.value = "FILE", .needs = "--coordinator"});
}

Result<std::optional<Secret>> secret_in(const std::string& path) {
  if (path.empty()) return std::optional<Secret>();
  const auto only_this = [&path](const char* name) {
    return std::string_view(name) == "TALLY_SECRET_FILE" ? path.c_str() : nullptr;
  };
  const auto options = options_from(only_this);
  if (options.has_value()) return options->secret;
  // The message names the variable; here the path comes from an option.
  Error error = options.error();
  constexpr std::string_view kVariable = "TALLY_SECRET_FILE=";
  if (error.message.rfind(kVariable, 0) == 0)
    error.message.replace(0, kVariable.size(), "--secret-file ");
  return error;
}

Error explained(const WatchTarget& target, Error error) {
  const bool hung_up = error.code == ErrorCode::kPeerLost || error.code == ErrorCode::kCorrupt;
  if (hung_up && !target.coordinator.empty() && target.secret_file.empty())
    error.message = "the coordinator closed the connection: it may want --secret-file";
  return error;
}

Result<group::Observer> observe(const WatchTarget& target, Deadline by) {
  if (!target.coordinator.empty()) {
    TALLY_TRY(const net::Address address, group::address_from(target.coordinator));
    TALLY_TRY(const auto secret, secret_in(target.secret_file));
    return group::Observer::remote(address, secret, by);
  }
  if (!target.job.empty()) return group::Observer::local(target.job);
  const std::vector<std::string> jobs = group::local_jobs();
  if (jobs.size() == 1) return group::Observer::local(jobs.front());
  return invalid(jobs.empty()
                     ? "no job of yours with a coordinator runs on this machine"
                     : fmt::format("several jobs run here, name one of: {}", fmt::join(jobs, " ")));
}

}  // namespace tally::app
