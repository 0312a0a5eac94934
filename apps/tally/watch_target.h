#pragma once
#include <optional>
#include <string>

#include "apps/tally/command_line.h"
#include "group/observer.h"
#include "tally/job.h"

namespace tally::app {

// The job that a command is about.
struct WatchTarget {
  std::string job;          // of this user on this machine; empty: the only job
  std::string coordinator;  // HOST:PORT of a job on another machine
  std::string secret_file;
};

// Adds JOB, --coordinator and --secret-file.
void add_target_options(Command& command, WatchTarget& target);

// kInvalid, with the names of running jobs, if no job is named and not exactly one runs.
Result<group::Observer> observe(const WatchTarget& target, Deadline by);

// Adds to the error the option that the user may have left out.
Error explained(const WatchTarget& target, Error error);

// Reads 32 bytes, raw or in hexadecimal, from a file that only this user may read; nothing if
// `path` is empty.
Result<std::optional<Secret>> secret_in(const std::string& path);

}  // namespace tally::app
