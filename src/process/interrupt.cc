#include "process/interrupt.h"

#include <array>
#include <csignal>

namespace tally::process {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

volatile sig_atomic_t noted_signal = 0;

void note(int signal) { noted_signal = signal; }

}  // namespace

InterruptGuard::InterruptGuard() {
  noted_signal = 0;
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
