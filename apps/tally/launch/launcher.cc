#include "apps/tally/launch/launcher.h"

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "apps/tally/launch/attempt.h"
#include "apps/tally/launch/descendants.h"
#include "apps/tally/launch/failure_summary.h"
#include "apps/tally/launch/job_console.h"
#include "apps/tally/launch/launch_signals.h"
#include "apps/tally/launch/rank_output.h"
#include "group/secret_text.h"

namespace tally::launch {
namespace {

using LauncherKind = AttemptEnd::Kind;

// Lines of a failed rank in the summary: fewer if they have been shown before.
constexpr std::size_t kLinesAgain = 10;
constexpr std::size_t kLinesOfQuietRank = 50;

class Launcher {
 public:
  Launcher(const LaunchOptions& options, JobConsole& console, LaunchSignals& signals,
           const Bystanders& bystanders)
      : options_(options), console_(console), signals_(signals), bystanders_(bystanders) {}

  int run() {
    auto output = RankOutput::open(options_, console_);
    auto secret = group::fresh_secret();
    if (!output || !secret) {
      console_.say((output ? secret.error() : output.error()).message);
      return kTroubleExitCode;
    }
    output_ = *std::move(output);
    const Deadline by =
        options_.timeout == Duration::max() ? Deadline::never() : Deadline::after(options_.timeout);
    for (int restart = 0;; ++restart) {
      const JobStart start{.job = options_.job,
                           .size = options_.size(),
                           .generation = 1 + kGenerationsPerStart * static_cast<unsigned>(restart),
                           .restart = restart,
                           .secret = *secret,
                           .own_address = {}};
      output_->begin();
      const AttemptEnd end =
          Attempt(options_, start, {console_, signals_, *output_, bystanders_}, by).run();
      const int code = report(end);
      if (!worth_another_try(end) || restart >= options_.max_restarts) return code;
      console_.say(fmt::format("restart {} of {}", restart + 1, options_.max_restarts));
    }
  }

 private:
  // A job that could not be started will not start the next time either.
  static bool worth_another_try(const AttemptEnd& end) {
    if (end.kind == LauncherKind::kHostLost) return true;
    return end.kind == LauncherKind::kRankFailed && end.failed.front().note.empty();
  }

  // Reports how the attempt ended; returns the exit code.
  int report(const AttemptEnd& end) {
    switch (end.kind) {
      case LauncherKind::kDone:
        if (!end.failed.empty())
          console_.say(fmt::format("warning: {} of {} ranks failed, and the others went on without",
                                   end.failed.size(), options_.size()));
        return 0;
      case LauncherKind::kRankFailed:
        return report_rank(end);
      case LauncherKind::kTimedOut:
        console_.say(fmt::format("the job did not end within {:.6g} s and was ended",
                                 std::chrono::duration<double>(options_.timeout).count()));
        return kTimeoutExitCode;
      case LauncherKind::kInterrupted:
        return kSignalExitBase + end.signal;
      case LauncherKind::kHostLost:
      case LauncherKind::kNotStarted:
        break;
    }
    console_.say(end.reason);
    return kTroubleExitCode;
  }

  int report_rank(const AttemptEnd& end) {
    const RankEnd& cause = end.failed.front();
    const bool shown = output_->shown(cause.rank);
    console_.say(failure_summary(
        {.cause = cause,
         .others = {end.failed.begin() + 1, end.failed.end()},
         .last_lines = output_->last_lines(cause.rank, shown ? kLinesAgain : kLinesOfQuietRank),
         .lines_were_shown = shown}));
    return exit_code(end.failed);
  }

  const LaunchOptions& options_;
  JobConsole& console_;
  LaunchSignals& signals_;
  const Bystanders& bystanders_;
  std::unique_ptr<RankOutput> output_;
};

}  // namespace

int run_job(const LaunchOptions& options) {
  // Variable of a job that this launcher may be a part of; other variables are replaced.
  ::unsetenv("TALLY_COORDINATOR");
  const Bystanders others = bystanders();
  adopt_orphans();
  auto signals = std::make_unique<LaunchSignals>();
  JobConsole console(options.speaker);
  const int code = Launcher(options, console, *signals, others).run();
  if (options.hooks.job_over) options.hooks.job_over();
  // All processes have ended: while the rest of the output waits for its reader, Ctrl-C works as
  // usual.
  signals.reset();
  return code;
}

}  // namespace tally::launch
