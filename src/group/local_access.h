#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "tally/error.h"

namespace tally::group {

// How programs of the same user on the same machine find a coordinator: by a local socket with the
// abstract name "tally-job-<user>-<job>". It is in no folder and vanishes with its owner, however
// that ends.

// 1 to 64 letters, digits, dots, underscores and dashes.
bool is_job_name(const std::string& name);

struct LocalAccess {
  Descriptor listener;
  std::string name;  // the job's, with a number behind it if another job has the same
};
Result<LocalAccess> open_local_access(const std::string& job);

// The next who calls there, if anybody does. Others than this user are turned away. An error: this
// process can take in nobody now.
Result<std::optional<Descriptor>> accept_local(const Descriptor& listener);

// Names of this user's jobs on this machine, sorted.
std::vector<std::string> local_jobs();
// From the text of /proc/net/unix.
std::vector<std::string> jobs_in(const std::string& table, unsigned user);

// kRefused if it is not this user who listens there; kSystem if nobody does.
Result<Descriptor> connect_local(const std::string& name);

}  // namespace tally::group
