#include "apps/tally/launch/launch_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace tally::launch {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGTSTP};

sigset_t those_to_take() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kSignals) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaddset(&set, number);
  }
  return set;
}

}  // namespace

LaunchSignals::LaunchSignals() {
  const sigset_t taken = those_to_take();
  ::sigprocmask(SIG_BLOCK, &taken, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  waiting_ = Descriptor(::signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC));
}

LaunchSignals::~LaunchSignals() {
  while (next()) {
  }
  const sigset_t taken = those_to_take();
  ::sigprocmask(SIG_UNBLOCK, &taken, nullptr);
}

std::optional<int> LaunchSignals::next() {
  signalfd_siginfo info{};
  if (::read(waiting_.descriptor(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace tally::launch
