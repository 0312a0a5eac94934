#pragma once
#include <optional>
#include <string>

#include "apps/tally/command_line.h"
#include "group/observer.h"
#include "tally/job.h"

namespace tally::app {

// Which job a command is about.
struct WatchTarget {
  std::string job;          // of this user on this machine; empty: the only one
  std::string coordinator;  // HOST:PORT instead
  std::string secret_file;
};

// JOB, --coordinator and --secret-file.
void add_target_options(Command& command, WatchTarget& target);

// kInvalid, with the names of those that run, if no job is named and there is not just one.
Result<group::Observer> observe(const WatchTarget& target, Deadline by);

// Why asking failed, with what the user may have left out.
Error explained(const WatchTarget& target, Error error);

// 32 bytes, raw or in hexadecimal, in a file that nobody else may read; none if `path` is empty.
Result<std::optional<Secret>> secret_in(const std::string& path);

}  // namespace tally::app
