#include "process/interrupt.h"

#include <poll.h>

#include <array>
#include <atomic>
#include <csignal>

namespace tally::process {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

// Any thread may run the handler.
std::atomic<int> noted_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) { noted_signal = signal; }

}  // namespace

InterruptGuard::InterruptGuard() {
  noted_signal = 0;
  // The thread sanitizer of clang 14 makes the signal context of a thread in its first blocking
  // call, and loses a signal that arrives meanwhile: this is that call, before the handlers.
  ::poll(nullptr, 0, 0);
  struct sigaction action {};
  action.sa_handler = note;  // without SA_RESTART: a waiting poll() returns at once
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  for (const int signal : kSignals) ::signal(signal, SIG_DFL);
}

int interrupted() { return noted_signal; }

}  // namespace tally::process
