#include "server/link/link_handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace tally::server {
namespace {

using net::Io;

template <typename... Args>
Error refused(fmt::format_string<Args...> text, Args&&... args) {
  return make_error(ErrorCode::kRefused, text, std::forward<Args>(args)...);
}

}  // namespace

LinkHandshake LinkHandshake::called(std::unique_ptr<LinkSocket> socket, Judge judge) {
  LinkHandshake opening(std::move(socket), State::kHandshake, true);
  opening.judge_ = std::move(judge);
  opening.due_bytes_ = kLinkGreetingBytes;
  return opening;
}

LinkHandshake LinkHandshake::calling(std::unique_ptr<LinkSocket> socket,
                                     const LinkGreeting& greeting) {
  const bool local = socket->local();
  LinkHandshake opening(std::move(socket), local ? State::kHandshake : State::kConnecting, false);
  opening.greeting_ = greeting;
  opening.bytes_ = encode(greeting);
  opening.due_bytes_ = kLinkGreetingBytes;
  return opening;
}

Result<LinkHandshake::Step> LinkHandshake::advance() {
  while (true) {
    const State before = state_;
    Result<Step> step = Step::kDone;
    switch (state_) {
      case State::kConnecting:
        step = connected();
        break;
      case State::kHandshake:
        step = handshake();
        break;
      case State::kSaying:
        step = say();
        break;
      case State::kHearing:
        step = hear();
        break;
      case State::kDone:
        return Step::kDone;
    }
    if (step.has_value()) wants_ = *step;
    if (!step.has_value() || state_ == before) return step;
  }
}

Result<LinkHandshake::Step> LinkHandshake::connected() {
  int reason = 0;
  socklen_t length = sizeof(reason);
  if (::getsockopt(descriptor(), SOL_SOCKET, SO_ERROR, &reason, &length) != 0) reason = errno;
  if (reason != 0) return net::socket_error("connect", reason);
  sockaddr_storage peer{};
  length = sizeof(peer);
  if (::getpeername(descriptor(), reinterpret_cast<sockaddr*>(&peer), &length) != 0)
    return Step::kWantsWrite;
  state_ = State::kHandshake;
  return Step::kDone;
}

Result<LinkHandshake::Step> LinkHandshake::handshake() {
  TALLY_TRY(const bool done, socket_->handshake());
  if (!done) return socket_->wants_write() ? Step::kWantsWrite : Step::kWantsRead;
  state_ = called_ ? State::kHearing : State::kSaying;
  return Step::kDone;
}

// The result of a call that moved no bytes.
Result<LinkHandshake::Step> LinkHandshake::end_of(const Io& io, Step blocked) const {
  if (io.state == Io::State::kBlocked) return blocked;
  if (io.state == Io::State::kFailed) return socket_->failure();
  return make_error(ErrorCode::kPeerLost, "it closed the connection");
}

Result<LinkHandshake::Step> LinkHandshake::say() {
  while (moved_bytes_ < due_bytes_) {
    const iovec part{bytes_.data() + moved_bytes_, due_bytes_ - moved_bytes_};
    const Io io = socket_->write({&part, 1}, -1);
    if (io.state != Io::State::kMoved) return end_of(io, Step::kWantsWrite);
    moved_bytes_ += io.bytes;
  }
  if (socket_->wants_write()) {
    const Io io = socket_->flush();
    if (io.state != Io::State::kMoved) return end_of(io, Step::kWantsWrite);
  }
  moved_bytes_ = 0;
  due_bytes_ = kLinkAnswerBytes;
  if (called_ && answer_.verdict != LinkVerdict::kWelcome)
    return refused("{}", to_string(answer_.verdict));
  state_ = called_ ? State::kDone : State::kHearing;
  return Step::kDone;
}

Result<LinkHandshake::Step> LinkHandshake::hear() {
  while (moved_bytes_ < due_bytes_) {
    const iovec part{bytes_.data() + moved_bytes_, due_bytes_ - moved_bytes_};
    const Io io = socket_->read({&part, 1});
    if (io.state != Io::State::kMoved) return end_of(io, Step::kWantsRead);
    moved_bytes_ += io.bytes;
  }
  if (called_) {
    TALLY_TRY(understand_greeting());
  } else {
    TALLY_TRY(understand_answer());
  }
  return Step::kDone;
}

Result<void> LinkHandshake::understand_greeting() {
  TALLY_TRY(greeting_, decode_link_greeting(bytes_));
  answer_ = judge_(greeting_);
  const EncodedLinkAnswer encoded = encode(answer_);
  std::copy(encoded.begin(), encoded.end(), bytes_.begin());
  due_bytes_ = encoded.size();
  moved_bytes_ = 0;
  state_ = State::kSaying;
  return {};
}

Result<void> LinkHandshake::understand_answer() {
  TALLY_TRY(answer_, decode_link_answer(std::span(bytes_).first<kLinkAnswerBytes>()));
  if (answer_.version != kLinkVersion)
    return refused("it speaks version {}, this is {}", answer_.version, kLinkVersion);
  if (answer_.verdict != LinkVerdict::kWelcome)
    return refused("it refuses us as a caller: {}", to_string(answer_.verdict));
  if (answer_.id != greeting_.to) return refused("it is node {}, not {}", answer_.id, greeting_.to);
  state_ = State::kDone;
  return {};
}

}  // namespace tally::server
