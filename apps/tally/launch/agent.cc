#include "apps/tally/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "apps/tally/launch/agent_resources.h"
#include "apps/tally/launch/descendants.h"
#include "apps/tally/launch/local_ranks.h"
#include "apps/tally/launch/messages.h"
#include "base/clock.h"
#include "group/host.h"
#include "net/message_connection.h"

namespace tally::launch {
namespace {

// While so many bytes wait for the launcher, no more output is read from the ranks: their pipes
// fill, and they block.
constexpr std::size_t kMaxWaitingBytes = std::size_t{256} << 10;
// Lease until the launcher sends another one.
constexpr auto kFirstLease = std::chrono::seconds(60);
// Grace time after SIGTERM to the agent.
constexpr auto kGrace = std::chrono::seconds(5);
// Time between repeated kills of processes that are still there.
constexpr auto kKillAgain = std::chrono::milliseconds(20);
// Time for killed processes to disappear.
constexpr auto kKillTime = std::chrono::seconds(10);

class Agent {
 public:
  Agent()
      : ranks_([this](const Message& message) { send(message); },
               [this] { return launcher_.unsent_bytes() < kMaxWaitingBytes; }) {}

  int run() {
    ::setsid();
    adopt_orphans();
    take_signals();
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO}) ::fcntl(stream, F_SETFL, O_NONBLOCK);
    const auto preamble = std::as_bytes(std::span(kPreamble));
    launcher_.send_raw({preamble.begin(), preamble.end()});
    send(Hello{.version = kVersion, .pid = ::getpid(), .host = group::host_name()});
    lease_ = kFirstLease;
    heard_ = clock_.now();
    while (step()) {
    }
    return kill_descendants(clock_.after(kKillTime)) ? 0 : 1;
  }

 private:
  void take_signals() {
    for (const int number : {SIGINT, SIGHUP, SIGPIPE, SIGQUIT, SIGTSTP}) ::signal(number, SIG_IGN);
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigaddset(&taken, SIGTERM);
    ::sigprocmask(SIG_SETMASK, &taken, nullptr);
    signals_ = Descriptor(::signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC));
  }

  // Waits for an event and handles it; false when the launcher is gone.
  bool step() {
    std::vector<pollfd> entries = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                   {.fd = signals_.descriptor(), .events = POLLIN, .revents = 0}};
    // Watch the pipe even with nothing to write, because poll() reports a closed reader.
    const bool writes = launcher_.unsent();
    entries.push_back(
        {.fd = STDOUT_FILENO, .events = static_cast<short>(writes ? POLLOUT : 0), .revents = 0});
    ranks_.add_to(entries);
    const Deadline by =
        launcher_.pending() ? Deadline::at(clock_.now()) : earlier(lease_end(), kill_at_);
    ::poll(entries.data(), entries.size(), net::poll_timeout(by));
    // Everything that the launcher has sent is read before its silence is judged: pings may have
    // waited while this process was held up.
    if (!hear() || lease_end().passed(clock_.now())) return false;
    if ((entries[2].revents & (POLLERR | POLLHUP)) != 0) return false;
    if (entries[1].revents != 0) take_signal();
    if (kill_at_.passed(clock_.now())) kill_all();
    ranks_.advance();
    launcher_.flush();
    return true;
  }

  Deadline lease_end() const {
    if (lease_ == Duration::zero() || paused_) return Deadline::never();
    return deadline_after(heard_, lease_);
  }

  void send(const Message& message) { launcher_.send(encode(message)); }

  // Reads and handles messages; false when the launcher is gone or sends an invalid message.
  bool hear() {
    const std::uint64_t before = launcher_.received_bytes();
    const auto payloads = launcher_.advance();
    if (!payloads.has_value()) return false;
    for (const auto& payload : *payloads) {
      Message message;
      if (!decode(payload, message).has_value()) return false;
      std::visit([this](const auto& each) { obey(each); }, message);
    }
    // Starting ranks may take long on a loaded machine.
    if (launcher_.received_bytes() != before) heard_ = clock_.now();
    return true;
  }

  void obey(const Reserve& /*wish*/) {
    auto held = hold_port();
    if (!held) return send(Trouble{.text = held.error().message});
    port_ = *std::move(held);
    send(Reserved{.port = port_.port});
  }

  void obey(const Launch& launch) {
    lease_ = std::chrono::milliseconds(launch.lease_ms);
    const auto started = ranks_.start(launch);
    if (!started) send(Trouble{.text = started.error().message});
  }

  void obey(const Signal& signal) {
    if (signal.number == SIGKILL) return kill_all();
    paused_ = signal.number == SIGSTOP;
    ranks_.signal(signal.number);
    // A stopped rank receives the signal only after SIGCONT.
    if (!paused_) ranks_.signal(SIGCONT);
  }

  void obey(const Ping& ping) { send(ping); }

  // Messages that only an agent sends.
  template <typename Other>
  void obey(const Other& /*message*/) {}

  void take_signal() {
    signalfd_siginfo info{};
    while (::read(signals_.descriptor(), &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo != SIGTERM) continue;  // children are reaped at every step
      obey(Signal{.number = SIGTERM});
      kill_at_ = earlier(kill_at_, clock_.after(kGrace));
    }
  }

  // Kills repeatedly until no process is left: a killed process may have had children.
  void kill_all() {
    const bool some = signal_descendants() > 0;
    kill_at_ = some ? clock_.after(kKillAgain) : Deadline::never();
  }

  const SteadyClock clock_;
  Descriptor signals_;
  net::MessageConnection launcher_{
      net::pipe_stream(Descriptor(STDIN_FILENO), Descriptor(STDOUT_FILENO)),
      {.framing = wire::Framing::kLengthPrefix, .max_unsent_bytes = std::size_t{64} << 20}};
  LocalRanks ranks_;
  HeldPort port_;
  Duration lease_{};
  TimePoint heard_{};
  bool paused_ = false;
  Deadline kill_at_ = Deadline::never();
};

}  // namespace

int run_agent() {
  if (::isatty(STDIN_FILENO) == 1) {
    fmt::print(stderr,
               "tally host-agent is started by `tally run`; there is nothing to type here\n");
    return 2;
  }
  return Agent().run();
}

}  // namespace tally::launch
