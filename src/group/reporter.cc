#include "group/reporter.h"

#include <poll.h>
#include <unistd.h>

#include <utility>

#include "base/clock.h"
#include "base/errors.h"
#include "base/option_text.h"
#include "group/host.h"

namespace tally::group {
namespace {

// Time for the coordinator to receive the goodbye.
constexpr Duration kReporterGoodbyeTime = std::chrono::milliseconds(500);

}  // namespace

Reporter::Reporter(const Options& options, const Registration& identity,
                   std::shared_ptr<Watched> watched)
    : connection_(options),
      heartbeat_(options.heartbeat),
      identity_(identity),
      watched_(std::move(watched)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

Result<std::unique_ptr<Reporter>> Reporter::start(const JobOptions& options,
                                                  const Registration& identity,
                                                  std::shared_ptr<Watched> watched) {
  TALLY_TRY(const net::Address address, address_from(options.coordinator));
  return std::make_unique<Reporter>(
      Options{.coordinator = address, .secret = options.secret, .heartbeat = options.heartbeat},
      identity, std::move(watched));
}

void Reporter::move_to(const Registration& identity, std::shared_ptr<Watched> watched) {
  {
    MutexLock lock(mutex_);
    identity_ = identity;
    watched_ = std::move(watched);
    moved_ = true;
  }
  wake();
}

void Reporter::close() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  wake();
  thread_.join();
}

Reporter::Self Reporter::self() {
  MutexLock lock(mutex_);
  return {identity_, watched_, std::exchange(moved_, false)};
}

void Reporter::work(const std::stop_token& stop) {
  TimePoint next_report{};
  while (!stop.stop_requested()) {
    const Self me = self();
    const TimePoint now = SteadyClock().now();
    if (me.moved) connection_.register_again(me.identity);
    if (connection_.open() && now >= next_report) {
      connection_.send(message_of(ControlKind::kReport, completed(me)));
      next_report = now + heartbeat_;
    }
    for (const ControlMessage& message : connection_.advance(me.identity, now)) obey(me, message);
    wait(connection_.open() ? next_report : connection_.next_look(now));
  }
  say_goodbye();
}

void Reporter::wait(TimePoint until) const {
  std::vector<pollfd> entries{{wake_.descriptor(), POLLIN, 0}};
  connection_.add_to(entries);
  const int timeout = connection_.pending() ? 0 : net::poll_timeout(Deadline::at(until));
  if (::poll(entries.data(), entries.size(), timeout) < 1) return;
  eventfd_t count = 0;
  if (entries[0].revents != 0) eventfd_read(wake_.descriptor(), &count);
}

Report Reporter::completed(const Self& me) const {
  Report report = me.watched->report();
  report.rank = me.identity.rank;
  report.generation = me.identity.generation;
  report.pid = me.identity.pid;
  report.host = me.identity.host;
  report.clock_offset = connection_.clock_offset();
  report.at = SteadyClock().now();
  return report;
}

void Reporter::obey(const Self& me, const ControlMessage& message) {
  switch (message.kind) {
    case ControlKind::kLost: {
      const auto lost = body_of<LostRanks>(message);
      if (lost.has_value() && lost->generation == me.identity.generation) me.watched->lost(*lost);
      break;
    }
    case ControlKind::kWantStack:
      connection_.send(message_of(ControlKind::kStack, StackReply{me.watched->stack()}));
      break;
    case ControlKind::kWantTrace: {
      Trace trace = me.watched->trace();
      trace.rank = me.identity.rank;
      trace.clock_offset = connection_.clock_offset();
      connection_.send(message_of(ControlKind::kTrace, trace));
      break;
    }
    default:
      break;  // a newer coordinator may send further kinds
  }
}

// Waits for the coordinator to close the connection, which it does after the goodbye.
void Reporter::say_goodbye() {
  const Self me = self();
  if (me.moved) connection_.register_again(me.identity);
  const TimePoint end = SteadyClock().now() + kReporterGoodbyeTime;
  bool said = false;
  while (connection_.alive() && SteadyClock().now() < end) {
    if (connection_.open() && !said) {
      connection_.send(message_of(ControlKind::kGoodbye, completed(me)));
      said = true;
    }
    connection_.last_words(me.identity, SteadyClock().now());
    if (!connection_.alive()) return;
    wait(end);
  }
}

Registration registration_of(const JobOptions& options, Rank rank, int size,
                             std::uint32_t generation) {
  const auto identity = host_identity("");
  return {.job = options.name,
          .rank = rank,
          .size = size,
          .generation = generation,
          .pid = getpid(),
          .host = host_name(),
          .host_identity = identity.has_value() ? *identity : ""};
}

Result<net::Address> address_from(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    host.clear();
  }
  const auto port = colon == std::string::npos
                        ? std::nullopt
                        : parse_as<std::uint16_t>(std::string_view(text).substr(colon + 1));
  if (host.empty() || !port) return invalid("'{}' is not HOST:PORT or [V6]:PORT", text);
  return net::Address{.host = host, .port = *port};
}

}  // namespace tally::group
