#include "group/watch_connection.h"

#include <poll.h>

#include <array>

namespace tally::group {
namespace {

// In one call, so that nobody who sends much keeps the others waiting.
constexpr std::size_t kMaxReads = 32;
constexpr std::size_t kReadBytes = std::size_t{16} << 10;

}  // namespace

void WatchConnection::send(const WatchMessage& message) {
  if (failure_) return;
  out_.push_back(encode(message));
  unsent_bytes_ += out_.back().size();
  if (unsent_bytes_ > max_unsent_bytes_)
    fail({.code = ErrorCode::kExhausted, .message = "it does not read what it is sent"});
}

short WatchConnection::events() const {
  if (!established_) return stream_->wants_write() ? POLLOUT : POLLIN;
  return static_cast<short>(unsent() ? POLLIN | POLLOUT : POLLIN);
}

Result<void> WatchConnection::write_some() {
  while (unsent()) {
    net::Io io;
    if (out_.empty()) {
      io = stream_->flush();
      if (io.state == net::Io::State::kMoved) return {};
    } else {
      const iovec part{out_.front().data() + sent_bytes_, out_.front().size() - sent_bytes_};
      io = stream_->write({&part, 1});
    }
    if (io.state == net::Io::State::kBlocked) return {};
    if (io.state == net::Io::State::kFailed) return stream_->failure();
    if (io.state == net::Io::State::kClosed)
      return Error{.code = ErrorCode::kPeerLost, .message = "connection closed"};
    sent_bytes_ += io.bytes;
    if (sent_bytes_ < out_.front().size()) continue;
    unsent_bytes_ -= out_.front().size();
    out_.pop_front();
    sent_bytes_ = 0;
  }
  return {};
}

void WatchConnection::read_some(std::vector<WatchMessage>& into) {
  std::array<std::byte, kReadBytes> bytes;
  more_ = false;
  for (std::size_t reads = 0; !failure_; ++reads) {
    if (reads == kMaxReads) {
      more_ = true;
      return;
    }
    const iovec part{bytes.data(), bytes.size()};
    const net::Io io = stream_->read({&part, 1});
    if (io.state == net::Io::State::kBlocked) return;
    if (io.state == net::Io::State::kFailed) return fail(stream_->failure());
    if (io.state == net::Io::State::kClosed)
      return fail({.code = ErrorCode::kPeerLost, .message = "connection closed"});
    in_.add(std::span(bytes).first(io.bytes));
    for (;;) {
      auto message = in_.next();
      if (!message.has_value()) return fail(message.error());
      if (!message->has_value()) break;
      into.push_back(**std::move(message));
    }
  }
}

Result<std::vector<WatchMessage>> WatchConnection::advance() {
  if (failure_) return *failure_;
  if (!established_) {
    TALLY_TRY(established_, stream_->handshake());
    if (!established_) return std::vector<WatchMessage>();
  }
  std::vector<WatchMessage> messages;
  read_some(messages);
  // A peer that has gone may have said something before.
  if (const auto written = write_some(); !written.has_value()) fail(written.error());
  if (failure_ && messages.empty()) return *failure_;
  return messages;
}

}  // namespace tally::group
