#include "group/reporter_connection.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "group/host.h"

namespace tally::group {
namespace {

constexpr Duration kReporterConnectionFirstPause = std::chrono::milliseconds(100);
constexpr Duration kReporterConnectionLongestPause = std::chrono::seconds(2);
// Time limit of connecting with the handshake.
constexpr Duration kPatience = std::chrono::seconds(5);
// A coordinator that leaves this many reports unanswered counts as lost.
constexpr int kUnanswered = 3;

}  // namespace

std::vector<ControlMessage> ReporterConnection::advance(const Registration& identity,
                                                        TimePoint now) {
  // Silence while this process itself was stopped does not count.
  if (advanced_ != TimePoint{} && now - advanced_ > 2 * options_.heartbeat) heard_ = now;
  advanced_ = now;
  std::vector<ControlMessage> messages;
  listen(now, messages);
  if (current_ && !silent_ && now - heard_ > kUnanswered * options_.heartbeat) {
    silent_ = true;
    gone(now);
  }
  const bool wanted = !current_ || (silent_ && !retiring_);
  if (wanted && !connecting_ && !hopeless_ && now >= next_try_) begin(identity, now);
  finish(identity, now);
  return messages;
}

void ReporterConnection::last_words(const Registration& identity, TimePoint now) {
  hopeless_ = true;
  if (!tried_) begin(identity, now);
  std::vector<ControlMessage> unheard;
  // From here on the end of the connection is expected.
  leaving_ = true;
  listen(now, unheard);
  finish(identity, now);
}

void ReporterConnection::listen(TimePoint now, std::vector<ControlMessage>& into) {
  if (!current_) return;
  auto messages = group::advance(*current_);
  if (!messages.has_value()) {
    // A coordinator that is short of time may refuse a second connection, and answer on the first.
    current_ = std::move(retiring_);
    silent_ = current_ != nullptr;
    return gone(now);
  }
  for (ControlMessage& message : *messages) {
    if (message.kind == ControlKind::kPulse) {
      take_pulse(message, now);
    } else if (message.kind == ControlKind::kRefusal) {
      complain(fmt::format("the coordinator at {} does not watch this rank: {}",
                           to_string(options_.coordinator), error_in(message).message));
      pause_ = kReporterConnectionLongestPause;
    } else {
      into.push_back(std::move(message));
    }
  }
}

void ReporterConnection::take_pulse(const ControlMessage& message, TimePoint now) {
  const auto pulse = body_of<Pulse>(message);
  if (!pulse.has_value()) return;
  heard_ = now;
  silent_ = false;
  retiring_.reset();
  pause_ = Duration{};
  if (complained_ && !leaving_)
    log_info(fmt::format("the coordinator at {} is back", to_string(options_.coordinator)));
  complained_ = false;
  if (pulse->machine == machine_identity()) {
    clock_offset_ = Duration{};
    return;
  }
  // The shortest round trip gives the best estimate of the clock offset.
  const Duration round_trip = now - pulse->echo;
  if (pulse->echo == TimePoint{} || round_trip > best_round_trip_) return;
  best_round_trip_ = round_trip;
  clock_offset_ = pulse->now - (pulse->echo + round_trip / 2);
}

void ReporterConnection::complain(const std::string& what) {
  if (!complained_ && !leaving_) log_warning(what);
  complained_ = true;
}

void ReporterConnection::gone(TimePoint now) {
  next_try_ = now + kReporterConnectionFirstPause;
  complain(fmt::format("the coordinator at {} is gone: running operations go on",
                       to_string(options_.coordinator)));
}

void ReporterConnection::attempt_failed(const std::string& why, TimePoint now) {
  connecting_.reset();
  pause_ = std::clamp<Duration>(2 * pause_, kReporterConnectionFirstPause,
                                kReporterConnectionLongestPause);
  next_try_ = now + pause_;
  complain(fmt::format("no coordinator at {}, going on without: {}",
                       to_string(options_.coordinator), why));
}

void ReporterConnection::begin(const Registration& identity, TimePoint now) {
  tried_ = true;
  if (!options_.secret && !net::on_loopback(options_.coordinator)) {
    hopeless_ = true;
    return attempt_failed("without a secret it is reached on this machine only", now);
  }
  if (!streams_) {
    auto streams =
        net::StreamFactory::make(options_.secret, fmt::format("tally rank {}", identity.rank));
    if (!streams.has_value()) return attempt_failed(streams.error().message, now);
    streams_ = *std::move(streams);
  }
  if (auto started = start(); started.has_value()) {
    // The coordinator needs no greeting: the exchange only connects and completes the handshake.
    connecting_.emplace(*std::move(started),
                        net::GreetingExchange::Caller{
                            .check = [](std::span<const std::byte>) { return Result<void>(); }});
    connecting_since_ = now;
  } else {
    attempt_failed(started.error().message, now);
  }
}

Result<std::unique_ptr<net::Stream>> ReporterConnection::start() const {
  TALLY_TRY(const auto endpoints, net::resolve(options_.coordinator));
  TALLY_TRY(net::Socket socket, net::start_connect(endpoints.front()));
  return streams_->client(std::move(socket));
}

void ReporterConnection::finish(const Registration& identity, TimePoint now) {
  if (!connecting_) return;
  const auto done = connecting_->advance();
  if (!done.has_value()) return attempt_failed(done.error().message, now);
  if (!*done) {
    if (now - connecting_since_ > kPatience) attempt_failed("no answer", now);
    return;
  }
  retiring_ = std::move(current_);
  current_ = std::make_unique<net::MessageConnection>(connecting_->take(),
                                                      net::MessageConnection::Options{});
  connecting_.reset();
  heard_ = now;
  register_again(identity);
}

void ReporterConnection::register_again(const Registration& identity) {
  if (current_) group::send(*current_, message_of(ControlKind::kRegister, identity));
}

void ReporterConnection::send(const ControlMessage& message) {
  const bool heartbeat = message.kind == ControlKind::kReport;
  if (current_ && !(heartbeat && current_->unsent())) group::send(*current_, message);
}

void ReporterConnection::add_to(std::vector<pollfd>& entries) const {
  if (current_) current_->add_to(entries);
  if (connecting_) entries.push_back(connecting_->poll_entry());
}

TimePoint ReporterConnection::next_look(TimePoint now) const {
  if (connecting_) return now + kPatience;
  return hopeless_ ? now + kReporterConnectionLongestPause : std::max(next_try_, now);
}

}  // namespace tally::group
