#include "net/greeting_exchange.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/errors.h"

namespace tally::net {

// The connecting side: kConnecting, kHandshake, kSend the greeting, kReceive the answer, kDone.
// The accepting side: kHandshake, kReceive the greeting, kSend the answer, kDone.

GreetingExchange::GreetingExchange(std::unique_ptr<Stream> stream, Caller caller)
    : stream_(std::move(stream)), caller_(std::move(caller)), stage_(Stage::kConnecting) {}

GreetingExchange::GreetingExchange(std::unique_ptr<Stream> stream, Host host)
    : stream_(std::move(stream)), host_(std::move(host)), stage_(Stage::kHandshake) {}

pollfd GreetingExchange::poll_entry() const {
  const bool writes =
      stage_ == Stage::kConnecting || stage_ == Stage::kSend || stream_->wants_write();
  return {.fd = stream_->descriptor(),
          .events = static_cast<short>(writes ? POLLOUT : POLLIN),
          .revents = 0};
}

Result<bool> GreetingExchange::advance() {
  while (stage_ != Stage::kDone) {
    TALLY_TRY(const bool done, step());
    if (!done) return false;
  }
  return true;
}

void GreetingExchange::enter(Stage stage) {
  stage_ = stage;
  moved_bytes_ = 0;
  if (stage == Stage::kReceive)
    bytes_.resize(host_.judge ? host_.greeting_bytes : caller_.answer_bytes);
  if (stage == Stage::kSend && !host_.judge) bytes_ = caller_.greeting;
}

// One stage; false if it waits for the socket.
Result<bool> GreetingExchange::step() {
  if (stage_ == Stage::kConnecting) {
    TALLY_TRY(const bool done, connected());
    if (done) enter(Stage::kHandshake);
    return done;
  }
  if (stage_ == Stage::kHandshake) {
    TALLY_TRY(const bool done, stream_->handshake());
    if (done) enter(host_.judge ? Stage::kReceive : Stage::kSend);
    return done;
  }
  TALLY_TRY(const bool moved, stage_ == Stage::kSend ? send() : receive());
  if (!moved) return false;
  if (stage_ == Stage::kSend) {
    if (refusal_) return *refusal_;
    enter(host_.judge ? Stage::kDone : Stage::kReceive);
  } else if (host_.judge) {
    const Bytes greeting = std::exchange(bytes_, {});
    const auto judged = host_.judge(greeting, bytes_);
    if (!judged.has_value() && bytes_.empty()) return judged.error();
    if (!judged.has_value()) refusal_ = judged.error();
    enter(Stage::kSend);
  } else {
    TALLY_TRY(caller_.check(bytes_));
    enter(Stage::kDone);
  }
  return true;
}

Result<bool> GreetingExchange::connected() const {
  int reason = 0;
  socklen_t length = sizeof(reason);
  const int descriptor = stream_->descriptor();
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &reason, &length) != 0) reason = errno;
  if (reason != 0) return socket_error("connect", reason);
  sockaddr_storage peer{};
  length = sizeof(peer);
  return ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &length) == 0;
}

Result<bool> GreetingExchange::send() {
  while (moved_bytes_ < bytes_.size()) {
    const iovec part{bytes_.data() + moved_bytes_, bytes_.size() - moved_bytes_};
    const Io io = stream_->write({&part, 1});
    if (io.state != Io::State::kMoved) return ended(io);
    moved_bytes_ += io.bytes;
  }
  if (!stream_->wants_write()) return true;
  const Io io = stream_->flush();
  if (io.state != Io::State::kMoved) return ended(io);
  return true;
}

Result<bool> GreetingExchange::receive() {
  while (moved_bytes_ < bytes_.size()) {
    const iovec part{bytes_.data() + moved_bytes_, bytes_.size() - moved_bytes_};
    const Io io = stream_->read({&part, 1});
    if (io.state != Io::State::kMoved) return ended(io);
    moved_bytes_ += io.bytes;
  }
  return true;
}

Result<bool> GreetingExchange::ended(const Io& io) const {
  if (io.state == Io::State::kBlocked) return false;
  if (io.state == Io::State::kFailed) return stream_->failure();
  return make_error(ErrorCode::kPeerLost, "connection closed before the greeting");
}

}  // namespace tally::net
