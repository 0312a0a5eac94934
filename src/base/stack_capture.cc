#include "base/stack_capture.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <fstream>
#include <vector>

#include "base/mutex.h"
#include "base/symbol_name.h"

namespace tally {
namespace {

constexpr int kMaxFrames = 48;
constexpr std::size_t kShownFrames = 12;

// The state that the handler and the asking thread share. A question has a number, so that a late
// answer to an earlier question is ignored.
struct Exchange {
  std::array<void*, kMaxFrames> frames{};
  std::atomic<int> count{0};
  std::atomic<std::uint32_t> asked{0};
  std::atomic<std::uint32_t> answered{0};
  sem_t done{};
};

Exchange& exchange() {
  static Exchange instance;
  return instance;
}

void on_capture_signal(int, siginfo_t* info, void*) {
  const int saved = errno;
  Exchange& shared = exchange();
  const auto number = static_cast<std::uint32_t>(info->si_value.sival_int);
  std::uint32_t expected = number - 1;
  // Only the pending question is answered, and only once.
  if (info->si_code == SI_QUEUE && shared.asked.load() == number &&
      shared.answered.compare_exchange_strong(expected, number)) {
    shared.count = backtrace(shared.frames.data(), kMaxFrames);
    sem_post(&shared.done);
  }
  errno = saved;
}

class Installation {
 public:
  void add() {
    MutexLock lock(mutex_);
    if (users_++ > 0) return;
    // The first call loads a library, which the handler must not do.
    std::array<void*, 2> unused{};
    backtrace(unused.data(), static_cast<int>(unused.size()));
    if (!prepared_) sem_init(&exchange().done, 0, 0);
    prepared_ = true;
    for (int candidate = SIGRTMAX - 1; candidate > SIGRTMIN; --candidate) {
      struct sigaction now {};
      if (sigaction(candidate, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
      struct sigaction ours {};
      ours.sa_sigaction = on_capture_signal;
      ours.sa_flags = SA_RESTART | SA_SIGINFO;
      if (sigaction(candidate, &ours, nullptr) != 0) continue;
      signal_ = candidate;
      return;
    }
  }

  void remove() {
    MutexLock lock(mutex_);
    if (--users_ > 0 || signal_ == 0) return;
    // A signal that is still pending must not end the process.
    ::signal(signal_, SIG_IGN);
    ::signal(signal_, SIG_DFL);
    signal_ = 0;
  }

  int signal_number() {
    MutexLock lock(mutex_);
    return signal_;
  }

 private:
  Mutex mutex_;
  int users_ TALLY_GUARDED_BY(mutex_) = 0;
  int signal_ TALLY_GUARDED_BY(mutex_) = 0;
  bool prepared_ TALLY_GUARDED_BY(mutex_) = false;
};

Installation& installation() {
  static Installation instance;
  return instance;
}

// "State:	S (sleeping)" and where in the kernel, as far as it tells.
std::string system_view(int thread) {
  const std::string folder = fmt::format("/proc/self/task/{}", thread);
  std::ifstream status(folder + "/status");
  std::string state = "not there";
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("State:", 0) != 0) continue;
    const std::size_t open = line.find('(');
    state = open == std::string::npos ? line : line.substr(open + 1, line.find(')') - open - 1);
    break;
  }
  std::string place;
  std::ifstream(folder + "/wchan") >> place;
  if (place.empty() || place == "0") return state;
  return fmt::format("{} in {}", state, place);
}

bool ask(int thread, int signal, std::uint32_t number) {
  siginfo_t info{};
  info.si_signo = signal;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_int = static_cast<int>(number);
  return syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, signal, &info) == 0;
}

bool await(Duration limit) {
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  const auto total = std::chrono::nanoseconds(until.tv_nsec) + limit;
  until.tv_sec += static_cast<time_t>(total / std::chrono::seconds(1));
  until.tv_nsec = static_cast<long>((total % std::chrono::seconds(1)).count());
  while (sem_clockwait(&exchange().done, CLOCK_MONOTONIC, &until) != 0)
    if (errno != EINTR) return false;
  return true;
}

// Frames of the handler itself and of the program's start-up code are left out.
bool worth_showing(const std::string& name) {
  constexpr std::array kDull = {
      "__restore_rt", "__libc_start_main", "_start", "start_thread", "clone", "clone3", "__clone"};
  return name.find("on_capture_signal") == std::string::npos &&
         std::none_of(kDull.begin(), kDull.end(),
                      [&name](const char* dull) { return name.rfind(dull, 0) == 0; }) &&
         name.find("libc.so") == std::string::npos;
}

std::string names_of(std::vector<void*> frames) {
  std::string text;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < frames.size() && shown < kShownFrames; ++i) {
    // The address of a frame is its return address: the call is before it.
    const auto* address = static_cast<const char*>(frames[i]) - 1;
    const std::string name = symbol_name(address);
    if (!worth_showing(name)) continue;
    text += (shown++ == 0 ? "" : " < ") + name;
  }
  return text;
}

}  // namespace

int this_thread_id() {
  thread_local const int id = static_cast<int>(syscall(SYS_gettid));
  return id;
}

StackCapture::StackCapture() { installation().add(); }
StackCapture::~StackCapture() { installation().remove(); }

std::string StackCapture::of_thread(int thread, Duration limit) const {
  const int signal = installation().signal_number();
  const auto without = [thread](const char* why) {
    return fmt::format("no stack ({}): thread {} is {}", why, thread, system_view(thread));
  };
  if (signal == 0) return without("no free signal");
  const std::string view = system_view(thread);
  Exchange& shared = exchange();
  const std::uint32_t number = shared.asked.load() + 1;
  shared.answered = number - 1;
  shared.asked = number;
  if (!ask(thread, signal, number)) return without("it has ended");
  if (!await(limit)) {
    std::uint32_t expected = number - 1;
    // From here on the handler does nothing, unless it has just begun.
    if (shared.answered.compare_exchange_strong(expected, number)) return without("no answer");
    if (!await(limit)) return without("no answer");
  }
  const std::vector<void*> frames(shared.frames.begin(), shared.frames.begin() + shared.count);
  return fmt::format("{} ({})", names_of(frames), view);
}

}  // namespace tally
