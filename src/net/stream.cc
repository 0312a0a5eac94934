#include "net/stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <utility>

#include "base/errors.h"
#include "base/mutex.h"
#include "net/peer_user.h"

namespace tally::net {
namespace {

// Descriptors that a local peer may have sent ahead of the messages that name them.
constexpr std::size_t kMostDescriptors = 16;

msghdr gathered(std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());  // neither call writes through it
  message.msg_iovlen = std::min<std::size_t>(parts.size(), IOV_MAX);
  return message;
}

// Translates errno of a failed call, and keeps the number for failure(): both directions may fail
// at the same time, in two threads.
class SystemErrors final {
 public:
  Io ended(int error_number) {
    if (error_number == EAGAIN || error_number == EWOULDBLOCK) return {Io::State::kBlocked};
    if (means_lost(error_number)) return {Io::State::kClosed};
    number_.store(error_number, std::memory_order_relaxed);
    return {Io::State::kFailed};
  }
  Error failure() const {
    return socket_error("connection", number_.load(std::memory_order_relaxed));
  }

 private:
  std::atomic<int> number_{0};
};

class SocketStream final : public Stream {
 public:
  enum class Kind { kPlain, kPlainClient, kLocal };
  SocketStream(Descriptor socket, Kind kind)
      : socket_(std::move(socket)),
        checks_user_(kind == Kind::kPlainClient),
        local_(kind == Kind::kLocal) {}

  Result<bool> handshake() override {
    if (checks_user_) TALLY_TRY(check_peer_user(socket_.descriptor()));
    return true;
  }
  Io write(std::span<const iovec> parts) override { return write_with(parts, -1); }

  Io write_with(std::span<const iovec> parts, int descriptor) override {
    msghdr message = gathered(parts);
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    if (local_ && descriptor >= 0) attach(message, control, descriptor);
    while (true) {
      // A library cannot count on the application to ignore SIGPIPE.
      const ssize_t count = ::sendmsg(socket_.descriptor(), &message, MSG_NOSIGNAL);
      if (count >= 0) return {Io::State::kMoved, static_cast<std::size_t>(count)};
      if (errno != EINTR) return errors_.ended(errno);
    }
  }

  Io read(std::span<const iovec> parts) override {
    msghdr message = gathered(parts);
    alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))];
    if (local_) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
    }
    while (true) {
      const ssize_t count = ::recvmsg(socket_.descriptor(), &message, MSG_CMSG_CLOEXEC);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return errors_.ended(errno);
      if (local_ && !keep_descriptors(message)) return errors_.ended(EPROTO);
      if (count == 0) return {Io::State::kClosed};
      return {Io::State::kMoved, static_cast<std::size_t>(count)};
    }
  }

  bool wants_write() const override { return false; }
  Io flush() override { return {Io::State::kMoved}; }
  void shutdown() override { ::shutdown(socket_.descriptor(), SHUT_WR); }
  Error failure() const override { return errors_.failure(); }
  int descriptor() const override { return socket_.descriptor(); }
  bool authenticated() const override { return false; }
  bool encrypted() const override { return false; }
  bool local() const override { return local_; }

  bool peer_ended() const override {
    if (!local_) return false;
    pollfd watched{.fd = socket_.descriptor(), .events = POLLRDHUP, .revents = 0};
    return ::poll(&watched, 1, 0) > 0;
  }
  Descriptor take_descriptor() override {
    if (arrived_.empty()) return {};
    Descriptor oldest = std::move(arrived_.front());
    arrived_.pop_front();
    return oldest;
  }

 private:
  static void attach(msghdr& message, char* control, int descriptor) {
    std::memset(control, 0, CMSG_SPACE(sizeof(int)));
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }

  // False if more arrived than a well-behaved peer sends. All are owned, and closed in the end.
  bool keep_descriptors(msghdr& message) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        arrived_.emplace_back(descriptor);
      }
    }
    return arrived_.size() <= kMostDescriptors && (message.msg_flags & MSG_CTRUNC) == 0;
  }

  const Descriptor socket_;
  const bool checks_user_;
  const bool local_;
  SystemErrors errors_;
  std::deque<Descriptor> arrived_;
};

class PipeStream final : public Stream {
 public:
  PipeStream(Descriptor read_end, Descriptor write_end)
      : read_end_(std::move(read_end)), write_end_(std::move(write_end)) {}

  Result<bool> handshake() override { return true; }
  Io write(std::span<const iovec> parts) override {
    if (!write_end_.open()) return {Io::State::kClosed};
    return moved([&] { return ::writev(write_end_.descriptor(), parts.data(), count(parts)); });
  }
  Io read(std::span<const iovec> parts) override {
    const Io io =
        moved([&] { return ::readv(read_end_.descriptor(), parts.data(), count(parts)); });
    return io.state == Io::State::kMoved && io.bytes == 0 ? Io{Io::State::kClosed} : io;
  }
  bool wants_write() const override { return false; }
  Io flush() override { return {Io::State::kMoved}; }
  void shutdown() override { write_end_.reset(); }
  Error failure() const override { return errors_.failure(); }
  int descriptor() const override { return read_end_.descriptor(); }
  int write_descriptor() const override { return write_end_.descriptor(); }
  bool authenticated() const override { return false; }
  bool encrypted() const override { return false; }

 private:
  static int count(std::span<const iovec> parts) {
    return static_cast<int>(std::min<std::size_t>(parts.size(), IOV_MAX));
  }
  template <typename Call>
  Io moved(const Call& call) {
    while (true) {
      const ssize_t bytes = call();
      if (bytes >= 0) return {Io::State::kMoved, static_cast<std::size_t>(bytes)};
      if (errno != EINTR) return errors_.ended(errno);
    }
  }

  const Descriptor read_end_;
  Descriptor write_end_;
  SystemErrors errors_;
};

class SynchronizedStream final : public Stream {
 public:
  explicit SynchronizedStream(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  Result<bool> handshake() override { return locked()->handshake(); }
  Io write(std::span<const iovec> parts) override { return locked()->write(parts); }
  Io read(std::span<const iovec> parts) override { return locked()->read(parts); }
  bool wants_write() const override { return locked()->wants_write(); }
  Io flush() override { return locked()->flush(); }
  void shutdown() override { locked()->shutdown(); }
  Error failure() const override { return locked()->failure(); }
  int descriptor() const override { return descriptor_; }
  bool authenticated() const override { return locked()->authenticated(); }
  bool showed_secret() const override { return locked()->showed_secret(); }
  std::string claimed_identity() const override { return locked()->claimed_identity(); }
  bool encrypted() const override { return encrypted_; }

 private:
  // The stream, and the mutex for as long as the expression lasts.
  struct Locked {
    MutexLock lock;
    Stream& stream;
    Stream* operator->() const { return &stream; }
  };
  Locked locked() const TALLY_NO_THREAD_SAFETY_ANALYSIS { return {MutexLock(mutex_), *stream_}; }

  mutable Mutex mutex_;
  const std::unique_ptr<Stream> stream_;
  const int descriptor_ = stream_->descriptor();
  const bool encrypted_ = stream_->encrypted();
};

Error timed_out(const char* what) { return Error{.code = ErrorCode::kTimeout, .message = what}; }

// Waits after a call that moved nothing, or returns its error.
Result<void> wait_or_fail(Stream& stream, const Io& io, Readiness readiness, Deadline by) {
  if (io.state == Io::State::kMoved) return {};
  if (io.state != Io::State::kBlocked) return end_of(stream, io);
  if (!wait_ready(stream.descriptor(), readiness, by)) return timed_out("peer does not answer");
  return {};
}

}  // namespace

std::unique_ptr<Stream> plain_stream(Socket socket) {
  return std::make_unique<SocketStream>(std::move(socket), SocketStream::Kind::kPlain);
}

std::unique_ptr<Stream> plain_client_stream(Socket socket) {
  return std::make_unique<SocketStream>(std::move(socket), SocketStream::Kind::kPlainClient);
}

std::unique_ptr<Stream> local_stream(Descriptor socket) {
  return std::make_unique<SocketStream>(std::move(socket), SocketStream::Kind::kLocal);
}

std::unique_ptr<Stream> pipe_stream(Descriptor read_end, Descriptor write_end) {
  return std::make_unique<PipeStream>(std::move(read_end), std::move(write_end));
}

std::unique_ptr<Stream> synchronized(std::unique_ptr<Stream> stream) {
  return std::make_unique<SynchronizedStream>(std::move(stream));
}

Error end_of(const Stream& stream, const Io& io) {
  if (io.state == Io::State::kFailed) return stream.failure();
  return make_error(ErrorCode::kPeerLost, "connection closed");
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
