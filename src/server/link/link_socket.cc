#include "server/link/link_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <utility>

#include "base/mutex.h"

namespace tally::server {
namespace {

using net::Io;

// Descriptors that a local peer may have sent ahead of the messages that name them.
constexpr std::size_t kMostDescriptors = 16;

msghdr gathered(std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());  // neither call writes through it
  message.msg_iovlen = std::min<std::size_t>(parts.size(), IOV_MAX);
  return message;
}

class RawSocket final : public LinkSocket {
 public:
  RawSocket(Descriptor socket, bool local) : socket_(std::move(socket)), local_(local) {}

  Result<bool> handshake() override { return true; }

  Io write(std::span<const iovec> parts, int descriptor) override {
    msghdr message = gathered(parts);
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (local_ && descriptor >= 0) attach(message, control, descriptor);
    while (true) {
      // A library cannot count on the application to ignore SIGPIPE.
      const ssize_t count = ::sendmsg(socket_.descriptor(), &message, MSG_NOSIGNAL);
      if (count >= 0) return {Io::State::kMoved, static_cast<std::size_t>(count)};
      if (errno != EINTR) return ended(errno);
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
      if (count < 0) return ended(errno);
      if (local_ && !keep_descriptors(message)) return ended(EPROTO);
      if (count == 0) return {Io::State::kClosed};
      return {Io::State::kMoved, static_cast<std::size_t>(count)};
    }
  }

  bool wants_write() const override { return false; }
  Io flush() override { return {Io::State::kMoved}; }
  void shutdown() override { ::shutdown(socket_.descriptor(), SHUT_WR); }
  bool peer_ended() const override {
    if (!local_) return false;
    pollfd watched{.fd = socket_.descriptor(), .events = POLLRDHUP, .revents = 0};
    return ::poll(&watched, 1, 0) > 0;
  }
  Error failure() const override {
    return net::socket_error("link", error_number_.load(std::memory_order_relaxed));
  }
  int descriptor() const override { return socket_.descriptor(); }
  bool local() const override { return local_; }
  bool checksummed() const override { return !local_; }

  Descriptor take_descriptor() override {
    if (came_.empty()) return {};
    Descriptor oldest = std::move(came_.front());
    came_.pop_front();
    return oldest;
  }

 private:
  static void attach(msghdr& message, char* control, int descriptor) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }

  // False if the peer sent more descriptors than a correct one does. Received ones are owned.
  bool keep_descriptors(msghdr& message) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        came_.emplace_back(descriptor);
      }
    }
    return came_.size() <= kMostDescriptors && (message.msg_flags & MSG_CTRUNC) == 0;
  }

  Io ended(int error_number) {
    if (error_number == EAGAIN || error_number == EWOULDBLOCK) return {Io::State::kBlocked};
    if (net::means_lost(error_number)) return {Io::State::kClosed};
    error_number_.store(error_number, std::memory_order_relaxed);
    return {Io::State::kFailed};
  }

  const Descriptor socket_;
  const bool local_;
  std::atomic<int> error_number_{0};
  std::deque<Descriptor> came_;
};

// A TLS connection has one state for both directions.
class TlsSocket final : public LinkSocket {
 public:
  explicit TlsSocket(std::unique_ptr<net::Stream> stream) : stream_(std::move(stream)) {}

  Result<bool> handshake() override {
    const MutexLock lock(mutex_);
    return stream_->handshake();
  }
  Io write(std::span<const iovec> parts, int /*descriptor*/) override {
    const MutexLock lock(mutex_);
    return stream_->write(parts);
  }
  Io read(std::span<const iovec> parts) override {
    const MutexLock lock(mutex_);
    return stream_->read(parts);
  }
  bool wants_write() const override {
    const MutexLock lock(mutex_);
    return stream_->wants_write();
  }
  Io flush() override {
    const MutexLock lock(mutex_);
    return stream_->flush();
  }
  void shutdown() override {
    const MutexLock lock(mutex_);
    stream_->shutdown();
  }
  Error failure() const override {
    const MutexLock lock(mutex_);
    return stream_->failure();
  }
  int descriptor() const override { return descriptor_; }
  bool local() const override { return false; }
  bool checksummed() const override { return false; }
  Descriptor take_descriptor() override { return {}; }

 private:
  mutable Mutex mutex_;
  const std::unique_ptr<net::Stream> stream_ TALLY_GUARDED_BY(mutex_);
  const int descriptor_ = stream_->descriptor();
};

}  // namespace

std::unique_ptr<LinkSocket> plain_link(net::Socket socket) {
  return std::make_unique<RawSocket>(std::move(socket), false);
}

std::unique_ptr<LinkSocket> local_link(Descriptor socket) {
  return std::make_unique<RawSocket>(std::move(socket), true);
}

std::unique_ptr<LinkSocket> tls_link(std::unique_ptr<net::Stream> stream) {
  return std::make_unique<TlsSocket>(std::move(stream));
}

}  // namespace tally::server
