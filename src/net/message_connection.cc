#include "net/message_connection.h"

#include <array>
#include <utility>

#include "base/errors.h"

namespace tally::net {
namespace {

constexpr std::size_t kReadBytes = std::size_t{16} << 10;
constexpr std::size_t kMaxNoiseBytes = std::size_t{64} << 10;

}  // namespace

void MessageConnection::send_raw(std::vector<std::byte> bytes) {
  if (failure_ || write_ended_) return;
  unsent_bytes_ += bytes.size();
  out_.push_back(std::move(bytes));
  if (unsent_bytes_ > options_.max_unsent_bytes)
    fail({.code = ErrorCode::kExhausted, .message = "it does not read what it is sent"});
}

void MessageConnection::add_to(std::vector<pollfd>& entries, bool read) const {
  const bool write = established_ ? unsent() : stream_->wants_write();
  const bool waits_to_read = read && (established_ || !write);
  const auto add = [&entries](int descriptor, int events) {
    entries.push_back({.fd = descriptor, .events = static_cast<short>(events), .revents = 0});
  };
  if (stream_->write_descriptor() == stream_->descriptor()) {
    add(stream_->descriptor(), (waits_to_read ? POLLIN : 0) | (write ? POLLOUT : 0));
    return;
  }
  if (waits_to_read) add(stream_->descriptor(), POLLIN);
  if (write) add(stream_->write_descriptor(), POLLOUT);
}

Result<bool> MessageConnection::establish() {
  if (!established_) {
    TALLY_TRY(established_, stream_->handshake());
  }
  return established_;
}

void MessageConnection::write_some() {
  while (!failure_ && unsent()) {
    Io io;
    if (out_.empty()) {
      io = stream_->flush();
      if (io.state == Io::State::kMoved) return;
    } else {
      const iovec part{out_.front().data() + sent_bytes_, out_.front().size() - sent_bytes_};
      io = stream_->write({&part, 1});
    }
    if (io.state == Io::State::kBlocked) return;
    if (io.state == Io::State::kFailed) return fail(stream_->failure());
    if (io.state == Io::State::kClosed) {
      // The peer may have sent messages before it closed; reading finds the end.
      write_ended_ = true;
      out_.clear();
      unsent_bytes_ = 0;
      return;
    }
    sent_bytes_ += io.bytes;
    if (sent_bytes_ < out_.front().size()) continue;
    unsent_bytes_ -= out_.front().size();
    out_.pop_front();
    sent_bytes_ = 0;
  }
}

// Finds the preamble if it is still missing, and cuts the following bytes into messages.
void MessageConnection::take(std::span<const std::byte> bytes) {
  received_bytes_ += bytes.size();
  if (introduced()) {
    in_.add(bytes);
  } else {
    noise_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t at = noise_.find(options_.preamble);
    introduced_ = at != std::string::npos;
    if (!introduced_ && noise_.size() > kMaxNoiseBytes)
      return fail({.code = ErrorCode::kCorrupt, .message = "it speaks another protocol"});
    if (!introduced_) return;
    in_.add(std::as_bytes(std::span(noise_).subspan(at + options_.preamble.size())));
    noise_.clear();
  }
  while (true) {
    auto payload = in_.next();
    if (!payload.has_value()) return fail(payload.error());
    if (!payload->has_value()) return;
    received_.push_back(**std::move(payload));
  }
}

void MessageConnection::read_some(std::size_t max_reads) {
  std::array<std::byte, kReadBytes> bytes;
  more_ = false;
  for (std::size_t reads = 0; !failure_; ++reads) {
    if (reads == max_reads) {
      more_ = true;
      return;
    }
    const iovec part{bytes.data(), bytes.size()};
    const Io io = stream_->read({&part, 1});
    if (io.state == Io::State::kBlocked && !broken()) return;
    if (io.state != Io::State::kMoved) return fail(end_of(*stream_, io));
    take(std::span(bytes).first(io.bytes));
  }
}

Result<std::vector<MessageConnection::Payload>> MessageConnection::advance() {
  if (!failure_) {
    TALLY_TRY(const bool established, establish());
    if (!established) return std::vector<Payload>();
    read_some(options_.max_reads);
    write_some();
  }
  if (failure_ && received_.empty()) return *failure_;
  const auto messages = std::exchange(received_, {});
  return std::vector<Payload>(std::make_move_iterator(messages.begin()),
                              std::make_move_iterator(messages.end()));
}

void MessageConnection::flush() {
  const auto established = establish();
  if (established.has_value() && *established) write_some();
}

Result<void> MessageConnection::flush(Deadline by) {
  if (!established_) {
    TALLY_TRY(complete_handshake(*stream_, by));
    established_ = true;
  }
  while (unsent()) {
    write_some();
    if (failure_) return *failure_;
    if (write_ended_) return end_of(*stream_, {Io::State::kClosed});
    if (unsent() && !wait_ready(stream_->write_descriptor(), Readiness::kWrite, by))
      return make_error(ErrorCode::kTimeout, "peer does not read");
  }
  return {};
}

Result<MessageConnection::Payload> MessageConnection::receive(Deadline by) {
  while (received_.empty()) {
    if (failure_) return *failure_;
    TALLY_TRY(const bool established, establish());
    if (established) read_some(1);
    if (received_.empty() && !failure_ && !more_ &&
        !wait_ready(stream_->descriptor(), Readiness::kRead, by))
      return make_error(ErrorCode::kTimeout, "peer does not answer");
  }
  Payload first = std::move(received_.front());
  received_.pop_front();
  return first;
}

void MessageConnection::shutdown() {
  out_.clear();
  unsent_bytes_ = 0;
  write_ended_ = true;
  stream_->shutdown();
}

}  // namespace tally::net
