#include "group/local_access.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <sstream>

#include "base/errors.h"
#include "base/file.h"
#include "net/local_socket.h"
#include "net/socket.h"

namespace tally::group {
namespace {

constexpr std::size_t kMaxName = 64;
// The number of jobs of one name that one user may run at a time on a machine.
constexpr int kMostOfOneName = 99;

std::string prefix(unsigned user) { return fmt::format("tally-job-{}-", user); }

}  // namespace

bool is_job_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                  c == '.' || c == '_' || c == '-';
         });
}

Result<LocalAccess> open_local_access(const std::string& job) {
  for (int i = 1; i <= kMostOfOneName; ++i) {
    const std::string name = i == 1 ? job : fmt::format("{}.{}", job, i);
    auto listener = net::listen_locally(prefix(geteuid()) + name);
    if (listener.has_value()) return LocalAccess{*std::move(listener), name};
    if (listener.error().code != ErrorCode::kRefused) return listener.error();
  }
  return make_error(ErrorCode::kExhausted, "{} jobs are called {}", kMostOfOneName, job);
}

// Lines: Num RefCount Protocol Flags Type St Inode Path; an abstract path begins with @, and flag
// 0x10000 is a socket that listens.
std::vector<std::string> jobs_in(const std::string& table, unsigned user) {
  const std::string start = "@" + prefix(user);
  std::set<std::string> names;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skipped;
    std::string flags;
    std::string path;
    words >> skipped >> skipped >> skipped >> flags >> skipped >> skipped >> skipped >> path;
    if (flags != "00010000" || path.rfind(start, 0) != 0) continue;
    const std::string name = path.substr(start.size());
    if (is_job_name(name)) names.insert(name);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> local_jobs() {
  return jobs_in(file_contents("/proc/net/unix").value_or(""), geteuid());
}

Result<Descriptor> connect_local(const std::string& name) {
  auto connected = net::connect_locally(prefix(geteuid()) + name);
  if (!connected.has_value()) {
    return make_error(ErrorCode::kSystem, "no coordinator of a job {} here: {}", name,
                      connected.error().message);
  }
  Descriptor socket = *std::move(connected);
  if (!net::peer_of_same_user(socket.descriptor()).has_value()) {
    return make_error(ErrorCode::kRefused, "another user listens under the name of job {}", name);
  }
  fcntl(socket.descriptor(), F_SETFL, O_NONBLOCK);
  return socket;
}

}  // namespace tally::group
