#include "apps/tally/launch/launcher.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "apps/tally/launch/attempt.h"
#include "apps/tally/launch/descendants.h"
#include "apps/tally/launch/failure_summary.h"
#include "apps/tally/launch/job_console.h"
#include "apps/tally/launch/launch_signals.h"
#include "apps/tally/launch/rank_output.h"
#include "base/errors.h"
#include "base/units.h"
#include "group/host.h"
#include "group/secret_text.h"

namespace tally::launch {
namespace {

// Lines of a failed rank in the summary: fewer if they have been shown before. The last line of one
// of our workers is the reason, unless a signal killed it.
constexpr std::size_t kLinesAgain = 10;
constexpr std::size_t kLinesOfQuietRank = 50;

std::size_t lines_of(const RankEnd& cause, const LaunchOptions& options, bool shown) {
  if (!shown) return kLinesOfQuietRank;
  if (options.lost_peer_code == 0) return kLinesAgain;
  return cause.signal == 0 && cause.lost.empty() ? 1 : 0;
}

// Time of a worker to finish the current step, write a checkpoint or vectors, and leave.
constexpr auto kWorkerGrace = std::chrono::seconds(30);

// Columns of the terminal that is stdout; 0 if stdout is none.
int terminal_columns() {
  const char* const kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  if (dumb || ::isatty(STDOUT_FILENO) != 1) return 0;
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

// A job that could not be started will not start the next time either.
bool worth_another_try(const AttemptEnd& end, const LaunchOptions& options) {
  if (end.kind == AttemptEnd::Kind::kHostLost) return true;
  if (end.kind != AttemptEnd::Kind::kRankFailed || !end.failed.front().note.empty()) return false;
  return options.final_code == 0 || exit_code(end.failed) != options.final_code;
}

int report_rank(const AttemptEnd& end, const LaunchOptions& options,
                const Attempt::Surroundings& with) {
  const RankEnd& cause = end.failed.front();
  const bool shown = with.output.shown(cause.rank);
  with.console.say(failure_summary(
      {.cause = cause,
       .others = {end.failed.begin() + 1, end.failed.end()},
       .last_lines = with.output.last_lines(cause.rank, lines_of(cause, options, shown)),
       .lines_were_shown = shown}));
  return exit_code(end.failed);
}

// Reports how the attempt ended; returns the exit code.
int report(const AttemptEnd& end, const LaunchOptions& options, const Attempt::Surroundings& with) {
  switch (end.kind) {
    case AttemptEnd::Kind::kDone:
      if (!end.failed.empty())
        with.console.say(
            fmt::format("warning: {} of {} ranks failed, and the others went on without",
                        end.failed.size(), options.size()));
      return 0;
    case AttemptEnd::Kind::kRankFailed:
      return report_rank(end, options, with);
    case AttemptEnd::Kind::kTimedOut:
      with.console.say(fmt::format("the job did not end within {:.6g} s and was ended",
                                   std::chrono::duration<double>(options.timeout).count()));
      return kTimeoutExitCode;
    case AttemptEnd::Kind::kInterrupted:
      return kSignalExitBase + end.signal;
    case AttemptEnd::Kind::kHostLost:
    case AttemptEnd::Kind::kNotStarted:
      break;
  }
  with.console.say(end.reason);
  return kTroubleExitCode;
}

// The time keeps the name unique when the system reuses a process id.
std::string fresh_run_name() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("{}-{}-{}", group::host_name(), ::getpid(),
                     std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

int run_attempts(const LaunchOptions& options, JobConsole& console, LaunchSignals& signals,
                 const Bystanders& bystanders) {
  const auto output = RankOutput::open(options, console);
  const auto secret = group::fresh_secret();
  if (!output || !secret) {
    console.say((output ? secret.error() : output.error()).message);
    return kTroubleExitCode;
  }
  const std::string run = fresh_run_name();
  RankWatch watch(options, console);
  const Attempt::Surroundings with{console, signals, **output, watch, bystanders};
  const Deadline by =
      options.timeout == Duration::max() ? Deadline::never() : Deadline::after(options.timeout);
  for (int restart = 0;; ++restart) {
    (*output)->begin();
    const JobStart start{.generation = 1 + kGenerationsPerStart * static_cast<unsigned>(restart),
                         .restart = restart,
                         .run = run,
                         .secret = *secret};
    const AttemptEnd end = Attempt(options, start, with, by).run();
    const int code = report(end, options, with);
    if (!worth_another_try(end, options) || restart >= options.max_restarts) return code;
    console.say(fmt::format("restart {} of {}", restart + 1, options.max_restarts));
  }
}

}  // namespace

int run_job(const LaunchOptions& options) {
  // Variable of a job that this launcher may be a part of; other variables are replaced.
  ::unsetenv("TALLY_COORDINATOR");
  const Bystanders others = bystanders();
  adopt_orphans();
  auto signals = std::make_unique<LaunchSignals>();
  JobConsole console(options.speaker);
  const int code = run_attempts(options, console, *signals, others);
  // All processes have ended: while the rest of the output waits for its reader, Ctrl-C works as
  // usual.
  signals.reset();
  return code;
}

LaunchOptions worker_job(const std::string& recipe, std::vector<std::string> command, int workers,
                         bool quiet) {
  const int columns = quiet ? 0 : terminal_columns();
  if (columns > 0) command.push_back(fmt::format("--live={}", columns));
  std::error_code failed;
  return {.command = std::move(command),
          .places = {{.host = "localhost", .first = 0, .count = workers}},
          .job = fmt::format("train-{}-{}", recipe, ::getpid()),
          .speaker = "tally train",
          .folder = std::filesystem::current_path(failed).string(),
          .prefixes = false,
          .counts_joined = true,
          .lost_peer_code = kLostPeerExitCode,
          .grace = kWorkerGrace};
}

Result<Duration> parse_time(const std::string& text) {
  const bool bare = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
  const bool minutes = text.size() > 1 && text.back() == 'm';
  const auto time = parse_duration(bare ? text + "s" : minutes ? text + "in" : text);
  if (time) return time;
  return invalid("'{}' is not a time such as 90, 90s, 5m or 2h", text);
}

Result<bool> is_rank() {
  TALLY_TRY(const JobOptions job, options_from(::getenv));
  return job.launcher != "none" || std::getenv("RANK") != nullptr;
}

bool is_restart() {
  const char* const restarts = std::getenv("TALLY_RESTART");
  return restarts != nullptr && std::string_view(restarts) != "0";
}

std::string run_name() {
  const char* const run = std::getenv("TALLY_RUN");
  return run != nullptr ? run : "";
}

}  // namespace tally::launch
