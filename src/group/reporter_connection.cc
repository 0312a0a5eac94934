#include "group/reporter_connection.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "group/host.h"

namespace tally::group {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kLongestPause = std::chrono::seconds(2);
// Time limit of connecting, and of the handshake.
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
  if (wanted && !attempt_ && !fresh_ && !hopeless_ && now >= next_try_) begin(identity, now);
  finish(identity, now);
  shake(identity, now);
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
  shake(identity, now);
}

void ReporterConnection::listen(TimePoint now, std::vector<ControlMessage>& into) {
  if (!current_) return;
  auto messages = group::advance(*current_);
  if (!messages.has_value()) {
    current_.reset();
    retiring_.reset();
    silent_ = false;
    return gone(now);
  }
  for (ControlMessage& message : *messages) {
    if (message.kind == ControlKind::kPulse) {
      take_pulse(message, now);
    } else if (message.kind == ControlKind::kRefusal) {
      complain(fmt::format("the coordinator at {} does not watch this rank: {}",
                           to_string(options_.coordinator), error_in(message).message));
      pause_ = kLongestPause;
    } else {
      into.push_back(std::move(message));
    }
  }
}

void ReporterConnection::take_pulse(const ControlMessage& message, TimePoint now) {
  const auto pulse = body_of(message, &read_pulse);
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
  next_try_ = now + kFirstPause;
  complain(fmt::format("the coordinator at {} is gone: running operations go on",
                       to_string(options_.coordinator)));
}

void ReporterConnection::attempt_failed(const std::string& why, TimePoint now) {
  attempt_.reset();
  fresh_.reset();
  pause_ = std::clamp<Duration>(2 * pause_, kFirstPause, kLongestPause);
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
  const auto endpoints = net::resolve(options_.coordinator);
  if (!endpoints.has_value()) return attempt_failed(endpoints.error().message, now);
  auto socket = net::start_connect(endpoints->front());
  if (!socket.has_value()) return attempt_failed(socket.error().message, now);
  attempt_.emplace(Attempt{*std::move(socket), endpoints->front(), now});
}

void ReporterConnection::finish(const Registration&, TimePoint now) {
  if (!attempt_) return;
  if (!net::wait_ready(attempt_->socket.descriptor(), net::Readiness::kWrite, Deadline::at(now))) {
    if (now - attempt_->began > kPatience) attempt_failed("no answer", now);
    return;
  }
  if (const auto made = net::finish_connect(attempt_->socket, attempt_->to); !made.has_value())
    return attempt_failed(made.error().message, now);
  auto stream = streams_->client(std::move(attempt_->socket));
  if (!stream.has_value()) return attempt_failed(stream.error().message, now);
  attempt_.reset();
  fresh_ = std::make_unique<net::MessageConnection>(*std::move(stream),
                                                    net::MessageConnection::Options{});
  fresh_since_ = now;
}

void ReporterConnection::shake(const Registration& identity, TimePoint now) {
  if (!fresh_) return;
  const auto nothing = fresh_->advance();
  if (!nothing.has_value()) return attempt_failed(nothing.error().message, now);
  if (!fresh_->established()) {
    if (now - fresh_since_ > kPatience) attempt_failed("no handshake", now);
    return;
  }
  retiring_ = std::move(current_);
  current_ = std::move(fresh_);
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
  if (fresh_) fresh_->add_to(entries);
  if (attempt_) entries.push_back({attempt_->socket.descriptor(), POLLOUT, 0});
}

TimePoint ReporterConnection::next_look(TimePoint now) const {
  if (attempt_ || fresh_) return now + kPatience;
  return hopeless_ ? now + kLongestPause : std::max(next_try_, now);
}

}  // namespace tally::group
