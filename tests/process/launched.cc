#include "process/launched.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <fmt/format.h>

namespace tally::process {
namespace {

namespace fs = std::filesystem;

std::string new_mark() {
  static int count = 0;
  return fmt::format("TALLY_TEST_MARK={}.{}.{}", getpid(), now_ms(), ++count);
}

std::vector<std::string> run_command(const std::vector<std::string>& words) {
  std::vector<std::string> command{TALLY_PROGRAM, "run"};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

Launched::Variables with_mark(Launched::Variables variables, const std::string& mark) {
  const std::size_t equals = mark.find('=');
  variables[mark.substr(0, equals)] = mark.substr(equals + 1);
  return variables;
}

}  // namespace

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Launched::Launched(const std::vector<std::string>& words, const Variables& variables)
    : mark_(new_mark()),
      tally_({.command = run_command(words), .variables = with_mark(variables, mark_)}) {}

Launched::~Launched() {
  tally_.signal(SIGKILL);
  tally_.wait_status();
  EXPECT_TRUE(nobody_left()) << tally_.transcript();
}

std::vector<pid_t> Launched::started() const {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string environment = contents_of(entry.path() / "environ");
    if (environment.find(mark_) == std::string::npos) continue;
    if (const pid_t pid = std::stoi(name); pid != tally_.pid()) found.push_back(pid);
  }
  return found;
}

bool Launched::await(const std::string& text, std::size_t count, milliseconds wait) const {
  const std::int64_t end = now_ms() + wait.count();
  for (;;) {
    std::size_t seen = 0;
    for (const pid_t pid : started()) {
      std::string words = contents_of(fmt::format("/proc/{}/cmdline", pid));
      std::replace(words.begin(), words.end(), '\0', ' ');
      if (words.find(text) != std::string::npos) ++seen;
    }
    if (seen == count || now_ms() >= end) return seen == count;
    std::this_thread::sleep_for(milliseconds(10));
  }
}

testing::AssertionResult Launched::nobody_left(milliseconds wait) const {
  const std::int64_t end = now_ms() + wait.count();
  std::vector<pid_t> left = started();
  while (!left.empty() && now_ms() < end) {
    std::this_thread::sleep_for(milliseconds(10));
    left = started();
  }
  if (left.empty()) return testing::AssertionSuccess();
  auto failure = testing::AssertionFailure() << "still there:";
  for (const pid_t pid : left) {
    failure << fmt::format(" {} {}", pid, contents_of(fmt::format("/proc/{}/cmdline", pid)));
    kill(pid, SIGKILL);
  }
  return failure;
}

std::string script(const Folder& folder, const std::string& name, const std::string& text) {
  const std::string path = folder.path() + "/" + name;
  std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

std::string pretending_shell(const Folder& folder) {
  return script(folder, "pretending_shell", "shift\nexec \"$@\"");
}

}  // namespace tally::process
