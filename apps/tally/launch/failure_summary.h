#pragma once
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::launch {

// A rank that did not exit with 0, or was given up.
struct RankEnd {
  Rank rank = 0;
  std::string host;
  int pid = 0;
  int code = 0;
  int signal = 0;          // not 0: the signal that killed the rank; `code` is then unused
  std::string note;        // why no program was started
  std::string lost;        // not empty: why the rank counts as lost although its process exists
  bool lost_peer = false;  // it ended only because it lost another rank or a server
};

// Chooses the cause among ranks that failed within a short time, in the order of the reports: the
// first that was lost while its process exists, because the others failed after that; else the
// first that a signal killed, because survivors of a loss exit or abort by themselves; else the
// first that did not end because it lost a peer; else the first.
std::size_t choose_cause(const std::vector<RankEnd>& failed);

// "exited with code 3", "was killed by signal 9 (SIGKILL)".
std::string describe(const RankEnd& end);
// Returns a possible reason and where to look; empty if none is known.
std::string hint(const RankEnd& end);
// Returns the exit code of the launcher: the code of the rank, or 128 plus its signal.
int exit_code(const RankEnd& end);
// The same for a job whose first failure is the cause: a lost rank has no code, the ranks that lost
// it do.
int exit_code(const std::vector<RankEnd>& failed);

struct FailureReport {
  RankEnd cause;
  std::vector<RankEnd> others;  // other ranks that failed by themselves, in order
  std::vector<std::string> last_lines;
  bool lines_were_shown = true;  // the lines have been shown when they came
};

// Returns several lines for the user, without the last newline.
std::string failure_summary(const FailureReport& report);

}  // namespace tally::launch
