#pragma once
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::launch {

// A rank that ended otherwise than by exiting with 0, or was given up.
struct RankEnd {
  Rank rank = 0;
  std::string host;
  int pid = 0;
  int code = 0;
  int signal = 0;    // not 0: it was killed, and `code` means nothing
  std::string note;  // why no program ran, where none did
  std::string lost;  // not empty: why it counts as lost, while its process is there
};

// Which of those that failed within one look, in the order in which they were seen, is the cause:
// the first that was lost while its process is there, for the others failed over that; else the
// first that a signal killed, for survivors of a loss exit or abort by themselves; else the first.
std::size_t choose_cause(const std::vector<RankEnd>& failed);

// "exited with code 3", "was killed by signal 9 (SIGKILL)".
std::string describe(const RankEnd& end);
// What it may mean and where to look; empty where nothing can be said.
std::string hint(const RankEnd& end);
// What the launcher exits with: the rank's code, or 128 and its signal.
int exit_code(const RankEnd& end);
// The same for a job, of which the cause comes first: one that is lost has no code, those who lost
// it do.
int exit_code(const std::vector<RankEnd>& failed);

struct FailureReport {
  RankEnd cause;
  std::vector<RankEnd> others;  // that failed by themselves, in order
  std::vector<std::string> last_lines;
  bool lines_were_shown = true;  // already, as they came
};

// Several lines for a person, without the last newline.
std::string failure_summary(const FailureReport& report);

}  // namespace tally::launch
