#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/tally/launch/job_console.h"
#include "apps/tally/launch/launcher.h"
#include "apps/tally/launch/lines.h"
#include "base/descriptor.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::launch {

// Sends the output of all ranks line by line to the console, byte by byte to a file each, and keeps
// the last lines in memory. Threads: one.
class RankOutput final {
 public:
  // Creates the folder and the files. kSystem with the name of the file that could not be created.
  static Result<std::unique_ptr<RankOutput>> open(const LaunchOptions& options,
                                                  JobConsole& console);

  // Begins a start of the job: the last lines of the previous one are dropped.
  void begin();
  void add(const Output& output);
  // Shows lines that were begun some time ago and have not ended, on a terminal; called at
  // show_begun_at() or later.
  void show_begun();
  Deadline show_begun_at() const { return begun_; }
  // Completes the rank's last lines.
  void finish(Rank rank);
  // At most `count`, oldest first.
  std::vector<std::string> last_lines(Rank rank, std::size_t count) const;
  // While hidden, nothing is added to the console.
  void hide(bool hidden) { hidden_ = hidden; }
  bool shown(Rank rank) const { return !quiet_ || rank == 0; }

 private:
  struct RankStreams {
    std::array<LineSplitter, 2> lines;
    std::array<std::string, 2> prefixes;
    Tail tail{50, std::size_t{32} << 10};
    Descriptor log;
  };

  RankOutput(const LaunchOptions& options, JobConsole& console);
  void take(Rank rank, Stream stream, std::string_view piece);
  RankStreams& of(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  JobConsole& console_;
  const bool quiet_;
  bool hidden_ = false;
  bool log_failed_ = false;
  Deadline begun_ = Deadline::never();
  std::vector<RankStreams> ranks_;
};

}  // namespace tally::launch
