#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "group/watch_message.h"
#include "net/stream.h"

namespace tally::group {

// One end of a connection over which WatchMessages go. Never blocks. Threads: one.
class WatchConnection final {
 public:
  // A peer that does not read is given up when more than `max_unsent_bytes` wait for it.
  WatchConnection(std::unique_ptr<net::Stream> stream, std::size_t max_unsent_bytes)
      : stream_(std::move(stream)), max_unsent_bytes_(max_unsent_bytes) {}

  // Queues a message; advance() sends it.
  void send(const WatchMessage& message);
  // Shakes hands, sends and reads what can be: the messages that came. An error ends the
  // connection; it is told when the messages before it have been.
  Result<std::vector<WatchMessage>> advance();

  int descriptor() const { return stream_->descriptor(); }
  // What poll() is to wait for.
  short events() const;
  // advance() has something to do whatever poll() says.
  bool impatient() const { return more_ || failure_.has_value(); }
  bool established() const { return established_; }
  bool unsent() const { return !out_.empty() || stream_->wants_write(); }

 private:
  Result<void> write_some();
  void read_some(std::vector<WatchMessage>& into);
  void fail(Error error) {
    if (!failure_) failure_ = std::move(error);
  }

  const std::unique_ptr<net::Stream> stream_;
  const std::size_t max_unsent_bytes_;
  bool established_ = false;
  bool more_ = false;
  MessageBuffer in_;
  std::deque<std::vector<std::byte>> out_;
  std::size_t sent_bytes_ = 0;    // of the first of out_
  std::size_t unsent_bytes_ = 0;  // of all of out_
  std::optional<Error> failure_;
};

}  // namespace tally::group
