#include "apps/tally/commands.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/tally/status_table.h"
#include "apps/tally/watch_target.h"
#include "group/local_access.h"
#include "process/interrupt.h"

namespace tally::app {
namespace {

constexpr const char* kStatusFooter = R"(
Examples:
  tally status                      the job on this machine, or the names of several
  tally status digits --watch       repeat every second, in place
  tally status digits --watch=5
  tally status --json | jq '.ranks[] | select(.state == "waiting")'
  tally status --coordinator node1:29401 --secret-file job.secret

Exit codes: 0 success; 1 no coordinator answered.)";

constexpr auto kStatusPatience = std::chrono::seconds(5);

struct StatusOptions {
  WatchTarget target;
  double watch = 0;
  bool json = false;
};

void list_jobs(const std::vector<std::string>& jobs, bool json) {
  if (json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"jobs", jobs}}.dump());
    return;
  }
  fmt::print("jobs on this machine; name one to see its ranks:\n");
  for (const std::string& job : jobs) fmt::print("  {}\n", job);
}

Result<group::JobStatus> ask_status(const StatusOptions& options) {
  const Deadline by = Deadline::after(kStatusPatience);
  TALLY_TRY(group::Observer observer, observe(options.target, by));
  return observer.status(by);
}

void show_status(const StatusOptions& options, const group::JobStatus& status, bool in_place) {
  const std::string text = options.json ? status_json(status).dump() + "\n" : status_table(status);
  // Cursor home, the text with the rest of each old line cleared, then clear the rest of the
  // screen.
  std::string screen = in_place ? "\x1b[H" : "";
  for (const char c : text) {
    if (in_place && c == '\n') screen += "\x1b[K";
    screen += c;
  }
  if (in_place) screen += "\x1b[J";
  std::fputs(screen.c_str(), stdout);
  std::fflush(stdout);
}

int run_status(const StatusOptions& options) {
  const bool unnamed = options.target.job.empty() && options.target.coordinator.empty();
  if (const auto jobs = group::local_jobs(); unnamed && jobs.size() > 1) {
    list_jobs(jobs, options.json);
    return 0;
  }
  const bool repeats = options.watch > 0;
  std::optional<process::InterruptGuard> guard;
  if (repeats) guard.emplace();
  const bool in_place = repeats && !options.json && isatty(STDOUT_FILENO) != 0;
  for (bool first = true; first || process::interrupted() == 0; first = false) {
    const auto status = ask_status(options);
    if (!status.has_value()) {
      fmt::print(stderr, "tally status: {}\n", explained(options.target, status.error()).message);
      return 1;
    }
    // The screen is cleared only when there is something to show.
    if (in_place && first) std::fputs("\x1b[2J", stdout);
    show_status(options, *status, in_place);
    if (!repeats) break;
    poll(nullptr, 0, static_cast<int>(options.watch * 1000));
  }
  return 0;
}

}  // namespace

void add_status_command(Command top) {
  Command command = top.add_command("status", "Show the state of each rank of a running job");
  command.footer(kStatusFooter);
  const auto o = std::make_shared<StatusOptions>();
  add_target_options(command, o->target);
  command.add("--watch", &o->watch, "Repeat every second, or every N seconds: --watch=5",
              {.value = "N", .least = 0.1, .most = 3600, .implied = "1"});
  command.add("--json", &o->json, "One line of JSON");
  command.action([o] { return run_status(*o); });
}

}  // namespace tally::app
