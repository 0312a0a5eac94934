#include "process/under_launcher.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>

namespace tally::process {

std::string program_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  // Daemons are in folders that the PATH of users may lack.
  std::istringstream folders(std::string(path == nullptr ? "" : path) + ":/usr/bin:/usr/sbin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + name;
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

std::map<std::string, std::string> with_foreign_library(
    std::map<std::string, std::string> variables) {
  const auto add = [&variables](const char* name, const char* more) {
    const char* const now = std::getenv(name);
    variables[name] = fmt::format("{}:{}", now == nullptr ? "" : now, more);
  };
  add("ASAN_OPTIONS", "detect_leaks=0");
  add("TSAN_OPTIONS", "ignore_noninstrumented_modules=1:ignore_interceptors_accesses=1");
  return variables;
}

HelloJob::HelloJob(std::vector<std::string> command, std::map<std::string, std::string> variables,
                   std::vector<std::string> program) {
  if (command.front().find('/') == std::string::npos)
    command.front() = program_path(command.front());
  command.insert(command.end(), program.begin(), program.end());
  variables.emplace("TALLY_JOIN_TIMEOUT", kNever);
  variables.emplace("TALLY_TIMEOUT", kNever);
  child_ = std::make_unique<Child>(Child::Options{command, variables});
}

HelloJob::~HelloJob() {
  child_->signal(SIGTERM);
  child_->wait_status();
}

testing::AssertionResult HelloJob::adds_up(int size, const std::string& launcher) {
  std::vector<std::string> lines;
  while (const auto line = child_->line("")) lines.push_back(*line);
  if (!child_->exits(0))
    return testing::AssertionFailure() << "no exit with 0; " << child_->transcript();
  const auto count = [&lines](const std::string& start, const std::string& end) {
    return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.rfind(start, 0) == 0 && line.size() >= end.size() &&
             line.compare(line.size() - end.size(), end.size(), end) == 0;
    });
  };
  for (Rank rank = 0; rank < size; ++rank) {
    if (count(fmt::format("rank {} of {} ", rank, size), "launcher: " + launcher) != 1)
      return testing::AssertionFailure() << "not one rank " << rank << "; " << child_->transcript();
  }
  const std::string sum = fmt::format("sum over {} ranks: {}", size, size * (size + 1) / 2);
  if (count(sum, sum) != 1 || count("sum ", "") != 1 || count("rank ", "") != size)
    return testing::AssertionFailure() << "not once " << sum << "; " << child_->transcript();
  return testing::AssertionSuccess();
}

}  // namespace tally::process
