#pragma once
#include <poll.h>

#include <memory>
#include <optional>
#include <vector>

#include "group/control.h"
#include "group/reporter.h"
#include "net/stream_factory.h"

namespace tally::group {

// The connection of a Reporter, made again and again while it fails. Says in the log when the
// coordinator goes and when it is back. Never blocks, but for the lookup of a name. Threads: one.
class ReporterLine final {
 public:
  explicit ReporterLine(const Reporter::Options& options) : options_(options) {}

  // Connects, shakes hands, registers, reads and writes as far as that goes now. Returns what the
  // coordinator said, but for pulses, which only this class needs.
  std::vector<ControlMessage> advance(const Registration& identity, TimePoint now);
  // The same, but what ends is not begun again. A first attempt is made, for ranks that are done
  // before it.
  void last_words(const Registration& identity, TimePoint now);

  // Dropped if nobody is there, and while earlier ones still wait to be sent.
  void send(const ControlMessage& message);
  void register_again(const Registration& identity);

  // Registered; the coordinator may not have answered yet.
  bool open() const { return current_ != nullptr; }
  // Open, on the way there, or not even tried yet.
  bool alive() const { return open() || fresh_ != nullptr || attempt_.has_value() || !tried_; }
  // What poll() is to wait for.
  void add_to(std::vector<pollfd>& entries) const;
  bool pending() const {
    return (current_ && current_->pending()) || (fresh_ && fresh_->pending());
  }
  TimePoint next_look(TimePoint now) const;
  // Coordinator's clock minus ours.
  Duration clock_offset() const { return clock_offset_; }

 private:
  struct Attempt {
    net::Socket socket;
    net::Endpoint to;
    TimePoint began;
  };

  void listen(TimePoint now, std::vector<ControlMessage>& into);
  void take_pulse(const ControlMessage& message, TimePoint now);
  void begin(const Registration& identity, TimePoint now);
  void finish(const Registration& identity, TimePoint now);
  void shake(const Registration& identity, TimePoint now);
  void attempt_failed(const std::string& why, TimePoint now);
  // Once, until it is heard again.
  void complain(const std::string& what);
  void gone(TimePoint now);

  const Reporter::Options options_;
  std::optional<net::StreamFactory> streams_;
  std::optional<Attempt> attempt_;
  std::unique_ptr<net::MessageConnection> fresh_;    // shaking hands
  std::unique_ptr<net::MessageConnection> current_;  // registered
  // The one before, if it only fell silent: ended when the new one is answered, since its end
  // before would look like that of this process.
  std::unique_ptr<net::MessageConnection> retiring_;
  TimePoint fresh_since_{};
  TimePoint heard_{};
  TimePoint advanced_{};
  TimePoint next_try_{};
  Duration pause_{};
  bool silent_ = false;
  bool complained_ = false;  // that it is gone, or cannot be reached
  bool hopeless_ = false;
  bool tried_ = false;
  bool leaving_ = false;  // the end of the connection is what is waited for
  Duration clock_offset_{};
  Duration best_round_trip_ = Duration::max();
};

}  // namespace tally::group
