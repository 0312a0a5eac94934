#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/tally/child_process.h"
#include "apps/tally/temp_dir.h"
#include "tally/error.h"

namespace tally::app {

// What the workers of one job on this machine need to find and to trust each other: a free port of
// the loopback interface, and a fresh secret in a file that only this user can read and that is
// removed with the object.
class LocalJob final {
 public:
  static Result<std::unique_ptr<LocalJob>> make(int size);

  // The variables that make a process rank `rank`, as options_from() reads them.
  std::vector<std::pair<std::string, std::string>> variables(Rank rank) const;

 private:
  LocalJob(int size, std::uint16_t port, std::unique_ptr<TempDir> folder)
      : size_(size), port_(port), folder_(std::move(folder)) {}
  std::string secret_file() const { return folder_->path() + "/secret"; }

  int size_;
  std::uint16_t port_;
  std::unique_ptr<TempDir> folder_;
};

// The same command `size` times, as the ranks of one job. All are killed when the object goes.
class LocalWorkers final {
 public:
  static Result<std::unique_ptr<LocalWorkers>> start(const std::vector<std::string>& command,
                                                     int size);

  // Waits until all have ended. When one fails the others get `grace` to say what they noticed and
  // are then killed; all are killed at once when we are interrupted. Returns how each ended, by
  // rank.
  std::vector<ExitStatus> wait(Duration grace);
  // The rank that failed first, or kNoRank.
  Rank first_failed() const { return first_failed_; }

 private:
  LocalWorkers() = default;
  std::unique_ptr<LocalJob> job_;
  std::vector<std::unique_ptr<ChildProcess>> processes_;
  Rank first_failed_ = kNoRank;
};

}  // namespace tally::app
