#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "process/exec.h"
#include "process/temp_dir.h"
#include "tally/error.h"

namespace tally::process {

// Everything that the workers of one job on this machine need to find and trust each other: a free
// port of the loopback interface, and a fresh secret in a file that only this user can read and
// that the destructor removes.
class LocalJob final {
 public:
  static Result<std::unique_ptr<LocalJob>> make(int size);

  // Returns the variables of rank `rank`, as options_from() reads them.
  Variables variables(Rank rank) const;

 private:
  LocalJob(int size, std::uint16_t port, std::unique_ptr<TempDir> folder)
      : size_(size), port_(port), folder_(std::move(folder)) {}
  std::string secret_file() const { return folder_->path() + "/secret"; }

  int size_;
  std::uint16_t port_;
  std::unique_ptr<TempDir> folder_;
};

}  // namespace tally::process
