#include "base/signal_dump.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"

namespace tally {
namespace {

// The only state that the signal handler may touch.
std::atomic<int> wake_descriptor{-1};

void on_signal(int) {
  const char byte = 'd';
  const int saved = errno;
  [[maybe_unused]] const auto written = ::write(wake_descriptor.load(), &byte, 1);
  errno = saved;
}

// Reads the bytes that the handler writes, and logs.
class Dumper {
 public:
  void add(const SignalDump* dump) {
    MutexLock lock(mutex_);
    dumps_.push_back(dump);
    if (dumps_.size() == 1) start();
  }

  void remove(const SignalDump* dump) {
    std::jthread ended;
    {
      MutexLock lock(mutex_);
      std::erase(dumps_, dump);
      if (dumps_.empty()) ended = stop();
    }
  }

 private:
  void start() TALLY_REQUIRES(mutex_) {
    struct sigaction now {};
    if (sigaction(SIGQUIT, nullptr, &now) != 0) return;
    // Shells set SIGQUIT to ignored for background programs; a handler belongs to the program.
    if (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN) return;
    before_ = now.sa_handler;
    if (pipe2(pipe_.data(), O_CLOEXEC) != 0) return;
    wake_descriptor = pipe_[1];
    thread_ = std::jthread([this, end = pipe_[0]] { work(end); });
    struct sigaction ours {};
    ours.sa_handler = on_signal;
    ours.sa_flags = SA_RESTART;
    sigaction(SIGQUIT, &ours, nullptr);
    installed_ = true;
  }

  std::jthread stop() TALLY_REQUIRES(mutex_) {
    if (!installed_) return {};
    installed_ = false;
    signal(SIGQUIT, before_);
    wake_descriptor = -1;
    close(pipe_[1]);
    return std::move(thread_);
  }

  void work(int end) {
    char byte = 0;
    while (read(end, &byte, 1) == 1) {
      MutexLock lock(mutex_);
      for (const SignalDump* dump : dumps_) log_info(dump->text());
    }
    close(end);
  }

  Mutex mutex_;
  std::vector<const SignalDump*> dumps_ TALLY_GUARDED_BY(mutex_);
  std::array<int, 2> pipe_{-1, -1};
  bool installed_ TALLY_GUARDED_BY(mutex_) = false;
  void (*before_)(int) = SIG_DFL;
  std::jthread thread_;
};

// Never destroyed: a program may call exit() while objects live, and a destructor would wait for
// the thread for ever.
Dumper& dumper() {
  static Dumper& instance = *new Dumper;
  return instance;
}

}  // namespace

SignalDump::SignalDump(std::function<std::string()> text) : text_(std::move(text)) {
  dumper().add(this);
}

SignalDump::~SignalDump() { dumper().remove(this); }

}  // namespace tally
