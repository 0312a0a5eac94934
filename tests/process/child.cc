#include "process/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/check.h"

extern char**
    environ;  // NOLINT(readability-redundant-declaration): unistd.h has it with _GNU_SOURCE only

namespace tally::process {
namespace {

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{-1, -1};
  TALLY_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Whether the variable is one by which launchers describe a job.
bool describes_job(const std::string& entry) {
  for (const char* start : {"RANK=", "WORLD_SIZE=", "LOCAL_", "MASTER_", "TALLY_", "TORCHELASTIC_",
                            "SLURM_", "OMPI_", "PMIX_", "PMI_", "JOB_COMPLETION_INDEX="})
    if (entry.rfind(start, 0) == 0) return true;
  return false;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (!describes_job(text) && !variables.contains(name)) result.push_back(text);
  }
  for (const auto& [name, value] : variables) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Reads all bytes that have arrived; closes the pipe at its end.
void drain(Descriptor& end, std::string& into) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t count = read(end.descriptor(), bytes.data(), bytes.size());
    if (count > 0) {
      into.append(bytes.data(), static_cast<std::size_t>(count));
      continue;
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) end = Descriptor();
    return;
  }
}

void start_and_await(const char* program) {
  std::string name = program;
  const std::array<char*, 2> arguments{name.data(), nullptr};
  pid_t pid = 0;
  TALLY_CHECK(posix_spawn(&pid, program, nullptr, nullptr, arguments.data(), environ) == 0);
  waitpid(pid, nullptr, 0);
}

void compute_for(std::clock_t processor_time) {
  const std::clock_t end = std::clock() + processor_time;
  while (std::clock() < end) asm volatile("" ::: "memory");
}

}  // namespace

std::int64_t now_ms() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double slowness() {
  constexpr int kStarts = 5;
  // The following takes 15 to 25 ms on an idle machine; timeouts have room for some more.
  constexpr double kUsualMilliseconds = 60;
  constexpr double kSanitizerFactor = kSanitized ? 5 : 1;
  const std::int64_t begin = now_ms();
  for (int i = 0; i < kStarts; ++i) start_and_await("/bin/true");
  compute_for(CLOCKS_PER_SEC / 100);
  const auto took = static_cast<double>(now_ms() - begin);
  return kSanitizerFactor * std::clamp(took / kUsualMilliseconds, 1.0, 30.0);
}

milliseconds scaled(milliseconds time) {
  return milliseconds(static_cast<std::int64_t>(static_cast<double>(time.count()) * slowness()));
}

std::string scaled_seconds(milliseconds time) {
  return fmt::format("{:.2f}", static_cast<double>(scaled(time).count()) / 1000);
}

std::string scaled_whole_seconds(milliseconds time) {
  return std::to_string(std::chrono::ceil<seconds>(scaled(time)).count());
}

Child::Child(const Options& options) {
  Pipe input = make_pipe();
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  std::vector<std::string> command = options.command;
  std::vector<std::string> environment = environment_with(options.variables);
  const std::vector<char*> arguments = pointers_to(command);
  const std::vector<char*> variables = pointers_to(environment);
  const pid_t parent = getpid();
  pid_ = fork();
  TALLY_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    // Only calls that are safe between fork and exec.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(input.read.descriptor(), STDIN_FILENO);
    dup2(output.write.descriptor(), STDOUT_FILENO);
    dup2(errors.write.descriptor(), STDERR_FILENO);
    execve(arguments[0], arguments.data(), variables.data());
    _exit(127);
  }
  input_ = std::move(input.write);
  output_end_ = std::move(output.read);
  errors_end_ = std::move(errors.read);
  for (const Descriptor* end : {&output_end_, &errors_end_})
    fcntl(end->descriptor(), F_SETFL, O_NONBLOCK);
}

Child::~Child() {
  signal(SIGKILL);
  if (!status_) waitpid(pid_, nullptr, 0);
  pump(milliseconds(0));
  for (const char* report : {"Sanitizer", "runtime error: "})
    if (errors_.find(report) != std::string::npos) ADD_FAILURE() << transcript();
}

void Child::signal(int number) {
  if (!wait_status(milliseconds(0))) kill(pid_, number);
}

void Child::stop() {
  signal(SIGSTOP);
  int status = 0;
  if (!status_) TALLY_CHECK(waitpid(pid_, &status, WUNTRACED) == pid_);
  if (!status_ && !WIFSTOPPED(status)) status_ = status;
}

void Child::tell(const std::string& line) {
  if (wait_status(milliseconds(0))) return;  // the pipe has no reader
  const std::string text = line + "\n";
  [[maybe_unused]] const auto written = write(input_.descriptor(), text.data(), text.size());
}

// Waits for output; false if both streams have ended.
bool Child::pump(milliseconds wait) {
  std::array<pollfd, 2> ends{pollfd{output_end_.descriptor(), POLLIN, 0},
                             pollfd{errors_end_.descriptor(), POLLIN, 0}};
  if (!output_end_.open() && !errors_end_.open()) return false;
  poll(ends.data(), ends.size(), static_cast<int>(wait.count()));
  if (output_end_.open()) drain(output_end_, output_);
  if (errors_end_.open()) drain(errors_end_, errors_);
  return true;
}

std::optional<std::string> Child::line(const std::string& start, milliseconds wait) {
  return next_line([&start](const std::string& line) { return line.rfind(start, 0) == 0; }, wait);
}

std::optional<std::string> Child::line_with(const std::string& part, milliseconds wait) {
  return next_line(
      [&part](const std::string& line) { return line.find(part) != std::string::npos; }, wait);
}

std::optional<std::string> Child::next_line(const std::function<bool(const std::string&)>& wanted,
                                            milliseconds wait) {
  const std::int64_t end = now_ms() + wait.count();
  for (;;) {
    for (std::size_t stop = output_.find('\n', read_bytes_); stop != std::string::npos;
         stop = output_.find('\n', read_bytes_)) {
      const std::string line = output_.substr(read_bytes_, stop - read_bytes_);
      read_bytes_ = stop + 1;
      if (wanted(line)) return line;
    }
    const std::int64_t left = end - now_ms();
    if (left <= 0 || !pump(milliseconds(left))) return std::nullopt;
  }
}

bool Child::complains(const std::string& text, milliseconds wait) {
  const std::int64_t end = now_ms() + wait.count();
  while (errors_.find(text) == std::string::npos) {
    const std::int64_t left = end - now_ms();
    if (left <= 0 || !pump(milliseconds(left))) return errors_.find(text) != std::string::npos;
  }
  return true;
}

std::optional<int> Child::wait_status(milliseconds wait) {
  const std::int64_t end = now_ms() + wait.count();
  while (!status_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      status_ = status;
      pump(milliseconds(0));  // what it wrote before its end
    }
    if (status_ || now_ms() >= end) break;
    if (!pump(milliseconds(10))) std::this_thread::sleep_for(milliseconds(10));
  }
  return status_;
}

bool Child::exits(int code, milliseconds wait) {
  const auto status = wait_status(wait);
  return status && WIFEXITED(*status) && WEXITSTATUS(*status) == code;
}

std::string Child::transcript() {
  pump(milliseconds(0));
  return fmt::format("pid {} wrote:\n{}and to stderr:\n{}", pid_, output_, errors_);
}

}  // namespace tally::process
