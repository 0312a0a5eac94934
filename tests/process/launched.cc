#include "process/launched.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include <fmt/format.h>

#include "process/processes.h"

namespace tally::process {
namespace {

constexpr const char* kMark = "TALLY_TEST_MARK";

std::string new_mark() {
  static int count = 0;
  return fmt::format("{}.{}.{}", getpid(), now_ms(), ++count);
}

std::vector<std::string> run_command(const std::vector<std::string>& words) {
  std::vector<std::string> command{TALLY_PROGRAM, "run"};
  if (std::find(words.begin(), words.end(), "--lost-after") == words.end())
    command.insert(command.end(), {"--lost-after", kNever});
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

Launched::Variables with_mark(Launched::Variables variables, const std::string& mark) {
  variables[kMark] = mark;
  return variables;
}

// Whether `condition` holds within `wait`.
template <typename Condition>
bool holds_within(milliseconds wait, const Condition& condition) {
  for (const std::int64_t end = now_ms() + wait.count(); !condition();) {
    if (now_ms() >= end) return false;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

}  // namespace

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
  for (const pid_t pid : all_processes())
    if (pid != tally_.pid() && variable_of(pid, kMark) == mark_) found.push_back(pid);
  return found;
}

pid_t Launched::rank(Rank rank) const {
  for (const pid_t pid : started())
    if (variable_of(pid, "RANK") == std::to_string(rank)) return pid;
  return 0;
}

bool Launched::await(const std::string& text, std::size_t count) const {
  return holds_within(kPatience, [&] {
    const std::vector<pid_t> all = started();
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](pid_t pid) {
             return words_of(pid).find(text) != std::string::npos;
           })) == count;
  });
}

bool Launched::await_stop() const {
  return holds_within(kPatience, [&] {
    // The launcher stops itself after the ranks; a signal to continue must not come before that.
    if (state_of(tally_.pid()) != 'T') return false;
    const std::vector<pid_t> all = started();
    return std::all_of(all.begin(), all.end(),
                       [](pid_t pid) { return !variable_of(pid, "RANK") || state_of(pid) == 'T'; });
  });
}

testing::AssertionResult Launched::nobody_left(milliseconds wait) const {
  if (holds_within(wait, [&] { return started().empty(); })) return testing::AssertionSuccess();
  auto failure = testing::AssertionFailure() << "still there:";
  for (const pid_t pid : started()) {
    failure << fmt::format(" {} {}", pid, words_of(pid));
    kill(pid, SIGKILL);
  }
  return failure;
}

std::string pretending_shell(const Folder& folder) {
  return script(folder, "pretending_shell", "shift\nexec \"$@\"");
}

}  // namespace tally::process
