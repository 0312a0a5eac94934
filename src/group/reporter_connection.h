#pragma once
#include <poll.h>

#include <memory>
#include <optional>
#include <vector>

#include "group/watch_message.h"
#include "net/greeting_exchange.h"
#include "net/stream_factory.h"
#include "tally/job.h"

namespace tally::group {

struct ReporterOptions {
  net::Address coordinator;
  std::optional<Secret> secret;
  Duration heartbeat = std::chrono::seconds(1);
};

// The connection of a Reporter, which reconnects after every failure. It logs when the coordinator
// is lost and when it is back. It never blocks, except for name lookup. Threads: one.
class ReporterConnection final {
 public:
  explicit ReporterConnection(const ReporterOptions& options) : options_(options) {}

  // Connects, completes the handshake, registers, reads and writes as far as that goes now. Returns
  // the messages of the coordinator, except pulses, which only this class needs.
  std::vector<ControlMessage> advance(const Registration& identity, TimePoint now);
  // The same without reconnecting, for the end of the rank. It connects if there was no attempt
  // yet.
  void last_words(const Registration& identity, TimePoint now);

  // Drops the message without a connection, and a heartbeat while earlier messages are unsent.
  void send(const ControlMessage& message);
  void register_again(const Registration& identity);

  // Whether the rank is registered; the coordinator may not have answered yet.
  bool open() const { return current_ != nullptr; }
  // Whether the connection is open, connecting, or not tried yet.
  bool alive() const { return open() || connecting_.has_value() || !tried_; }
  // Adds what poll() is to wait for.
  void add_to(std::vector<pollfd>& entries) const;
  bool pending() const { return current_ && current_->pending(); }
  TimePoint next_look(TimePoint now) const;
  // The coordinator's clock minus this rank's.
  Duration clock_offset() const { return clock_offset_; }

 private:
  void listen(TimePoint now, std::vector<ControlMessage>& into);
  void take_pulse(const ControlMessage& message, TimePoint now);
  void begin(const Registration& identity, TimePoint now);
  void finish(const Registration& identity, TimePoint now);
  Result<std::unique_ptr<net::Stream>> start() const;
  void attempt_failed(const std::string& why, TimePoint now);
  // Logs once, until the coordinator answers again.
  void complain(const std::string& what);
  void gone(TimePoint now);

  const ReporterOptions options_;
  std::optional<net::StreamFactory> streams_;
  std::optional<net::GreetingExchange> connecting_;
  std::unique_ptr<net::MessageConnection> current_;  // registered
  // The previous connection, if it only fell silent. It is closed when the new one is answered: the
  // coordinator would take an earlier end for the end of this process.
  std::unique_ptr<net::MessageConnection> retiring_;
  TimePoint connecting_since_{};
  TimePoint heard_{};
  TimePoint advanced_{};
  TimePoint next_try_{};
  Duration pause_{};
  bool silent_ = false;
  bool complained_ = false;  // that the coordinator is lost or unreachable
  bool hopeless_ = false;
  bool tried_ = false;
  bool leaving_ = false;  // the coordinator is expected to close the connection
  Duration clock_offset_{};
  Duration best_round_trip_ = Duration::max();
};

}  // namespace tally::group
