#include "process/processes.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "process/folder.h"

namespace tally::process {
namespace {

std::string proc_file(pid_t pid, const char* name) {
  return contents_of(fmt::format("/proc/{}/{}", pid, name));
}

// The words after the name in "PID (NAME) STATE PARENT ...".
std::istringstream status_words(pid_t pid) {
  const std::string status = proc_file(pid, "stat");
  const std::size_t name_end = status.rfind(')');
  return std::istringstream(name_end == std::string::npos ? "" : status.substr(name_end + 1));
}

}  // namespace

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) pids.push_back(std::stoi(name));
  }
  return pids;
}

pid_t parent_of(pid_t pid) {
  std::string state;
  pid_t parent = 0;
  status_words(pid) >> state >> parent;
  return parent;
}

char state_of(pid_t pid) {
  char state = 0;
  status_words(pid) >> state;
  return state;
}

std::optional<std::string> variable_of(pid_t pid, const std::string& name) {
  std::istringstream variables(proc_file(pid, "environ"));
  for (std::string variable; std::getline(variables, variable, '\0');)
    if (variable.rfind(name + "=", 0) == 0) return variable.substr(name.size() + 1);
  return std::nullopt;
}

std::string words_of(pid_t pid) {
  std::string words = proc_file(pid, "cmdline");
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

}  // namespace tally::process
