#include "process/exec.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "base/errors.h"

namespace tally::process {

void set_variable(Variables& variables, const std::string& name, std::string value) {
  for (auto& variable : variables) {
    if (variable.first != name) continue;
    variable.second = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

std::vector<std::string> environment_with(const Variables& variables) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool replaced =
        std::any_of(variables.begin(), variables.end(),
                    [&name](const auto& variable) { return variable.first == name; });
    if (!replaced) result.push_back(text);
  }
  for (const auto& [name, value] : variables) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return make_error(ErrorCode::kExhausted, "cannot make a pipe: {}{}", strerror(errno),
                      errno == EMFILE ? ": raise the limit of `ulimit -n`" : "");
  return Pipe{.read = Descriptor(ends[0]), .write = Descriptor(ends[1])};
}

void make_non_blocking(const Descriptor& descriptor) {
  ::fcntl(descriptor.descriptor(), F_SETFL, O_NONBLOCK);
}

void restore_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGQUIT, SIGTSTP})
    ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void connect_streams(const std::array<int, 3>& streams) {
  for (int i = 0; i < 3; ++i) {
    const int from = streams[static_cast<std::size_t>(i)];
    // dup2() of a descriptor onto itself would leave it to be closed by exec.
    if (from == i) ::fcntl(i, F_SETFD, 0);
    if (from >= 0 && from != i) ::dup2(from, i);
  }
}

void become_child_of(pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before prctl()
  restore_signals();
}

void reap(pid_t child) {
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace tally::process
