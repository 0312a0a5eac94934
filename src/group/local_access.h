#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "tally/error.h"

namespace tally::group {

// Programs of the same user on the same machine find a coordinator by a local socket with the
// abstract name "tally-job-<user>-<job>". The name is in no folder and vanishes with its owner.

// 1 to 64 letters, digits, dots, underscores and dashes.
bool is_job_name(const std::string& name);

struct LocalAccess {
  Descriptor listener;
  std::string name;  // of the job, with a number appended if another job has the same name
};
Result<LocalAccess> open_local_access(const std::string& job);

// Names of this user's jobs on this machine, sorted.
std::vector<std::string> local_jobs();
// The same, from the text of /proc/net/unix.
std::vector<std::string> jobs_in(const std::string& table, unsigned user);

// kRefused if another user listens there; kSystem if no process does.
Result<Descriptor> connect_local(const std::string& name);

}  // namespace tally::group
