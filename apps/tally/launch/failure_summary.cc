#include "apps/tally/launch/failure_summary.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "apps/tally/launch/launcher.h"
#include "base/check.h"

namespace tally::launch {
namespace {

constexpr std::size_t kMaxOthers = 8;

std::string name_of_signal(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

// Returns the signal that killed the rank, or a command of the script that the rank is; 0 if none
// did.
int fatal_signal(const RankEnd& end) {
  if (end.signal != 0) return end.signal;
  if (end.code <= kSignalExitBase) return 0;
  const int signal = end.code - kSignalExitBase;
  const bool known = signal == SIGKILL || signal == SIGSEGV || signal == SIGBUS ||
                     signal == SIGFPE || signal == SIGILL || signal == SIGABRT;
  return known ? signal : 0;
}

constexpr std::array<std::pair<int, const char*>, 5> kSignalHints = {
    {{SIGKILL,
      "if it was not killed on purpose, memory ran out: see `dmesg | grep -i 'killed process'` "
      "there"},
     {SIGSEGV,
      "it used memory that is not there; `ulimit -c unlimited` before the run keeps a core file"},
     {SIGBUS,
      "memory that it had mapped is gone: a full /dev/shm (`df -h /dev/shm`) or a shortened file"},
     {SIGABRT, "it aborted: a failed check, or an uncaught exception"},
     {SIGILL, "an instruction that this processor does not have: built for another one?"}}};

}  // namespace

std::size_t choose_cause(const std::vector<RankEnd>& failed) {
  TALLY_CHECK(!failed.empty());
  for (std::size_t i = 0; i < failed.size(); ++i)
    if (!failed[i].lost.empty()) return i;
  for (std::size_t i = 0; i < failed.size(); ++i) {
    const int signal = fatal_signal(failed[i]);
    if (signal != 0 && signal != SIGABRT) return i;
  }
  for (std::size_t i = 0; i < failed.size(); ++i)
    if (!failed[i].lost_peer) return i;
  return 0;
}

std::string describe(const RankEnd& end) {
  if (!end.lost.empty()) return fmt::format("was lost: {}", end.lost);
  if (!end.note.empty()) return fmt::format("did not start: {}", end.note);
  if (end.lost_peer) return "ended because it lost another rank or a server";
  if (end.signal != 0)
    return fmt::format("was killed by signal {} ({})", end.signal, name_of_signal(end.signal));
  const int inner = fatal_signal(end);
  if (inner == 0) return fmt::format("exited with code {}", end.code);
  return fmt::format("exited with code {} (128 and {}: a command of it was killed)", end.code,
                     name_of_signal(inner));
}

std::string hint(const RankEnd& end) {
  if (!end.note.empty())
    return "the program must be on every host, under the same path seen from --workdir";
  const int fatal = fatal_signal(end);
  for (const auto& [signal, text] : kSignalHints)
    if (signal == fatal) return text;
  if (fatal != 0) return "";
  if (end.code == kNotFound)
    return "127 usually means that a program or library was not found; is it on every host, under "
           "the "
           "same path?";
  if (end.code == kNotRunnable) return "126 usually means that a file may not be executed";
  return "";
}

int exit_code(const RankEnd& end) {
  if (end.lost_peer) return 1;
  return end.signal != 0 ? kSignalExitBase + end.signal : end.code;
}

int exit_code(const std::vector<RankEnd>& failed) {
  TALLY_CHECK(!failed.empty());
  const auto ended = std::find_if(failed.begin(), failed.end(),
                                  [](const RankEnd& end) { return end.lost.empty(); });
  return exit_code(ended != failed.end() ? *ended : failed.front());
}

std::string failure_summary(const FailureReport& report) {
  const RankEnd& cause = report.cause;
  std::string text = fmt::format("rank {} on {}", cause.rank, cause.host);
  if (cause.pid != 0) text += fmt::format(" (pid {})", cause.pid);
  text += fmt::format(" {}\n", describe(cause));
  if (const std::string advice = hint(cause); !advice.empty())
    text += fmt::format("  hint: {}\n", advice);
  if (!report.last_lines.empty()) {
    text += fmt::format("  its last lines{}:\n", report.lines_were_shown ? ", again" : "");
    for (const std::string& line : report.last_lines) text += fmt::format("  | {}\n", line);
  }
  std::vector<RankEnd> others = report.others;
  const auto losers = std::stable_partition(others.begin(), others.end(),
                                            [](const RankEnd& end) { return !end.lost_peer; });
  const auto lost_peer = static_cast<std::size_t>(others.end() - losers);
  others.erase(losers, others.end());
  for (std::size_t i = 0; i < others.size() && i < kMaxOthers; ++i)
    text += fmt::format("  after that, rank {} {}\n", others[i].rank, describe(others[i]));
  if (others.size() > kMaxOthers)
    text += fmt::format("  and {} more ranks\n", others.size() - kMaxOthers);
  if (lost_peer > 0)
    text += fmt::format("  {} other rank{} ended because of that\n", lost_peer,
                        lost_peer == 1 ? "" : "s");
  text.pop_back();
  return text;
}

}  // namespace tally::launch
