#include "net/stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace tally::net {
namespace {

class PlainStream final : public Stream {
 public:
  explicit PlainStream(Socket socket) : socket_(std::move(socket)) {}

  Result<bool> handshake() override { return true; }

  Io write(std::span<const iovec> parts) override {
    const msghdr message = gathered(parts);
    while (true) {
      // A library cannot count on the application to ignore SIGPIPE.
      const ssize_t count = ::sendmsg(descriptor(), &message, MSG_NOSIGNAL);
      if (count >= 0) return {Io::State::kMoved, static_cast<std::size_t>(count)};
      if (errno != EINTR) return ended("send");
    }
  }

  Io read(std::span<const iovec> parts) override {
    msghdr message = gathered(parts);
    while (true) {
      const ssize_t count = ::recvmsg(descriptor(), &message, 0);
      if (count > 0) return {Io::State::kMoved, static_cast<std::size_t>(count)};
      if (count == 0) return {Io::State::kClosed};
      if (errno != EINTR) return ended("receive");
    }
  }

  bool wants_write() const override { return false; }
  Io flush() override { return {Io::State::kMoved}; }
  void shutdown() override { ::shutdown(descriptor(), SHUT_WR); }
  const Error& failure() const override { return failure_; }
  int descriptor() const override { return socket_.descriptor(); }
  bool authenticated() const override { return false; }
  bool encrypted() const override { return false; }

 private:
  static msghdr gathered(std::span<const iovec> parts) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());  // neither call writes through it
    message.msg_iovlen = std::min<std::size_t>(parts.size(), IOV_MAX);
    return message;
  }

  Io ended(const char* what) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {Io::State::kBlocked};
    if (means_lost(errno)) return {Io::State::kClosed};
    failure_ = socket_error(what, errno);
    return {Io::State::kFailed};
  }

  Socket socket_;
  Error failure_;
};

Error timed_out(const char* what) { return Error{.code = ErrorCode::kTimeout, .message = what}; }

// What a call that did not move anything means to somebody who wants all bytes.
Result<void> wait_or_fail(Stream& stream, const Io& io, Readiness readiness, Deadline by) {
  switch (io.state) {
    case Io::State::kMoved:
      return {};
    case Io::State::kClosed:
      return Error{.code = ErrorCode::kPeerLost, .message = "connection closed"};
    case Io::State::kFailed:
      return stream.failure();
    case Io::State::kBlocked:
      break;
  }
  if (!wait_ready(stream.descriptor(), readiness, by)) return timed_out("peer does not answer");
  return {};
}

}  // namespace

std::unique_ptr<Stream> plain_stream(Socket socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

Result<void> complete_handshake(Stream& stream, Deadline by) {
  while (true) {
    TALLY_TRY(const bool done, stream.handshake());
    if (done && !stream.wants_write()) return {};
    const Readiness awaited = stream.wants_write() ? Readiness::kWrite : Readiness::kRead;
    if (!wait_ready(stream.descriptor(), awaited, by)) {
      return timed_out("handshake not completed in time");
    }
    if (done) stream.flush();
  }
}

Result<void> write_all(Stream& stream, std::span<const std::byte> bytes, Deadline by) {
  while (!bytes.empty() || stream.wants_write()) {
    const iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const Io io = bytes.empty() ? stream.flush() : stream.write({&part, 1});
    TALLY_TRY(wait_or_fail(stream, io, Readiness::kWrite, by));
    bytes = bytes.subspan(bytes.empty() ? 0 : io.bytes);
  }
  return {};
}

Result<void> read_all(Stream& stream, std::span<std::byte> bytes, Deadline by) {
  while (!bytes.empty()) {
    const iovec part{bytes.data(), bytes.size()};
    const Io io = stream.read({&part, 1});
    TALLY_TRY(wait_or_fail(stream, io, Readiness::kRead, by));
    bytes = bytes.subspan(io.bytes);
  }
  return {};
}

}  // namespace tally::net
