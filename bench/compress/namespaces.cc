#include "bench/compress/namespaces.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/file.h"
#include "process/child_process.h"
#include "process/exec.h"

namespace tally::bench::compress {

namespace {

constexpr std::string_view kPrefix = "tally-bench-";
// Fields between the state of a process and its start time in /proc/PID/stat.
constexpr int kWordsBetween = 18;

// Takes a number and the following '-' from the front of `text`.
template <typename T>
bool take_number(std::string_view& text, T& number) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != '-') return false;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()) + 1);
  return true;
}

}  // namespace

std::optional<std::uint64_t> began_ticks_of(pid_t pid) {
  // "PID (NAME) STATE ...", where the name may contain any character.
  const std::string stat = file_contents(fmt::format("/proc/{}/stat", pid)).value_or("");
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(stat.substr(name_end + 1));
  char state = 'Z';
  words >> state;
  if (state == 'Z' || state == 'X') return std::nullopt;
  std::string between;
  for (int i = 0; i < kWordsBetween; ++i) words >> between;
  std::uint64_t began = 0;
  return words >> began ? std::optional(began) : std::nullopt;
}

Result<NamespaceOwner> this_owner() {
  struct stat info {};
  const auto began = began_ticks_of(::getpid());
  if (::stat("/proc/self/ns/pid", &info) != 0 || !began)
    return system_failure("/proc does not tell about this process");
  return NamespaceOwner{.pid_namespace = info.st_ino, .pid = ::getpid(), .began_ticks = *began};
}

std::string namespace_name(const NamespaceOwner& owner, char host) {
  return fmt::format("{}{}-{}-{}-{}", kPrefix, owner.pid_namespace, owner.pid, owner.began_ticks,
                     host);
}

std::optional<NamespaceOwner> owner_of(std::string_view name) {
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  std::string_view rest = name.substr(kPrefix.size());
  NamespaceOwner owner;
  const bool whole = take_number(rest, owner.pid_namespace) && take_number(rest, owner.pid) &&
                     take_number(rest, owner.began_ticks) && rest.size() == 1;
  // The name is formatted again and compared: no signs, leading zeros or impossible numbers.
  if (!whole || owner.pid <= 0 || namespace_name(owner, rest.front()) != name) return std::nullopt;
  return rest == "a" || rest == "b" ? std::optional(owner) : std::nullopt;
}

bool is_gone(const NamespaceOwner& owner, std::uint64_t own_pid_namespace,
             std::optional<std::uint64_t> now_there) {
  return owner.pid_namespace == own_pid_namespace && now_there != owner.began_ticks;
}

namespace {

constexpr const char* kNamespaces = "/run/netns";
constexpr auto kRemovalTimeout = std::chrono::seconds(20);
constexpr auto kPollInterval = std::chrono::milliseconds(5);
// Nothing is written to the pipe: read ends when its other end is closed.
constexpr const char* kScript =
    "read -r nothing; for name; do [ ! -e /run/netns/$name ] || /usr/sbin/ip netns del $name; done";

// Runs between fork() and exec, where only async-signal-safe calls are allowed.
[[noreturn]] void become(char* const* words, int pipe) {
  ::setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
  const int null_fd = ::open("/dev/null", O_WRONLY);
  if (::dup2(pipe, STDIN_FILENO) < 0 || null_fd < 0 || ::chdir("/") != 0) ::_exit(127);
  ::fcntl(STDIN_FILENO, F_SETFD, 0);  // in case the pipe already had this number
  ::dup2(null_fd, STDOUT_FILENO);
  ::dup2(null_fd, STDERR_FILENO);
  ::execv("/bin/sh", words);
  ::_exit(127);
}

}  // namespace

Result<std::unique_ptr<NamespaceCleaner>> NamespaceCleaner::start(
    const std::vector<std::string>& namespaces) {
  std::vector<std::string> words = {"/bin/sh", "-c", kScript, "tally-bench-cleaner"};
  words.insert(words.end(), namespaces.begin(), namespaces.end());
  const std::vector<char*> pointers = process::pointers_to(words);
  TALLY_TRY(process::Pipe pipe, process::make_pipe());
  const pid_t pid = ::fork();
  if (pid == 0) become(pointers.data(), pipe.read.descriptor());
  if (pid < 0) return system_failure("cannot start a process: {}", strerror(errno));
  return std::unique_ptr<NamespaceCleaner>(new NamespaceCleaner(pid, std::move(pipe.write)));
}

NamespaceCleaner::~NamespaceCleaner() {
  alive_.reset();
  const SteadyClock clock;
  const Deadline by = clock.after(kRemovalTimeout);
  // The process is never killed: it removes the rest later.
  while (::waitpid(pid_, nullptr, WNOHANG) == 0 && !by.passed(clock.now()))
    std::this_thread::sleep_for(kPollInterval);
}

void remove_left_over() {
  const auto self = this_owner();
  if (!self) return;
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(kNamespaces, failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename().string();
    const auto owner = owner_of(name);
    if (owner && is_gone(*owner, self->pid_namespace, began_ticks_of(owner->pid)))
      names.push_back(name);
  }
  // A namespace that cannot be removed now is left to a later call.
  for (const std::string& name : names)
    (void)process::output_of({kIp, "netns", "del", name}, SteadyClock().after(kRemovalTimeout))
        .has_value();
}

}  // namespace tally::bench::compress
