#include "net/introduction.h"

#include <span>
#include <utility>

#include <fmt/format.h>

namespace tally::net {

Introduction::Introduction(std::unique_ptr<Stream> stream, const wire::Greeting& greeting)
    : stream_(std::move(stream)), greeting_(greeting) {
  const wire::EncodedGreeting encoded = wire::encode(greeting);
  bytes_.assign(encoded.begin(), encoded.end());
}

Introduction::Introduction(std::unique_ptr<Stream> stream, Judge judge)
    : stream_(std::move(stream)), judge_(std::move(judge)) {}

bool Introduction::wants_write() const {
  if (stream_->wants_write()) return true;
  const Stage writing = judge_ ? Stage::kAnswer : Stage::kGreeting;
  return stage_ == writing;
}

Result<bool> Introduction::advance() {
  if (stage_ == Stage::kHandshake) {
    TALLY_TRY(const bool done, stream_->handshake());
    if (!done) return false;
    stage_ = Stage::kGreeting;
  }
  return judge_ ? advance_host() : advance_caller();
}

Result<bool> Introduction::advance_caller() {
  if (stage_ == Stage::kGreeting) {
    TALLY_TRY(const bool sent, send());
    if (!sent) return false;
    done_bytes_ = 0;
    stage_ = Stage::kAnswer;
  }
  if (stage_ == Stage::kAnswer) {
    TALLY_TRY(const bool received, receive(wire::kAnswerBytes));
    if (!received) return false;
    TALLY_TRY(check_answer());
    stage_ = Stage::kDone;
  }
  return true;
}

Result<bool> Introduction::advance_host() {
  if (stage_ == Stage::kGreeting) {
    TALLY_TRY(const bool received, receive(wire::kGreetingBytes));
    if (!received) return false;
    TALLY_TRY(judge_greeting());
    done_bytes_ = 0;
    stage_ = Stage::kAnswer;
  }
  if (stage_ == Stage::kAnswer) {
    TALLY_TRY(const bool sent, send());
    if (!sent) return false;
    if (answer_.verdict != wire::Verdict::kWelcome) {
      return Error{.code = ErrorCode::kRefused,
                   .peer = caller_,
                   .message = fmt::format("connection of rank {} refused: {}", caller_,
                                          to_string(answer_.verdict))};
    }
    stage_ = Stage::kDone;
  }
  return true;
}

Result<void> Introduction::judge_greeting() {
  TALLY_TRY(const wire::Greeting greeting,
            wire::decode_greeting(std::span(bytes_).first<wire::kGreetingBytes>()));
  caller_ = greeting.from;
  answer_ = judge_(greeting);
  const wire::EncodedAnswer encoded = wire::encode(answer_);
  bytes_.assign(encoded.begin(), encoded.end());
  return {};
}

Result<void> Introduction::check_answer() const {
  TALLY_TRY(const wire::GreetingAnswer answer,
            wire::decode_answer(std::span(bytes_).first<wire::kAnswerBytes>()));
  const auto refused = [this](std::string why) {
    return Error{.code = ErrorCode::kRefused, .peer = greeting_.to, .message = std::move(why)};
  };
  if (answer.verdict != wire::Verdict::kWelcome) {
    return refused(fmt::format("rank {} refuses this connection: {}", greeting_.to,
                               to_string(answer.verdict)));
  }
  if (answer.version != greeting_.version || answer.rank != greeting_.to ||
      answer.generation != greeting_.generation) {
    return refused(fmt::format(
        "rank {} of generation {} expected, rank {} of generation {} answers (version {})",
        greeting_.to, greeting_.generation, answer.rank, answer.generation, answer.version));
  }
  return {};
}

Result<bool> Introduction::send() {
  while (done_bytes_ < bytes_.size()) {
    const iovec part{bytes_.data() + done_bytes_, bytes_.size() - done_bytes_};
    const Io io = stream_->write({&part, 1});
    if (io.state != Io::State::kMoved) return io_ended(io);
    done_bytes_ += io.bytes;
  }
  if (!stream_->wants_write()) return true;
  const Io io = stream_->flush();
  if (io.state != Io::State::kMoved) return io_ended(io);
  return true;
}

Result<bool> Introduction::receive(std::size_t bytes) {
  bytes_.resize(bytes);
  while (done_bytes_ < bytes) {
    const iovec part{bytes_.data() + done_bytes_, bytes - done_bytes_};
    const Io io = stream_->read({&part, 1});
    if (io.state != Io::State::kMoved) return io_ended(io);
    done_bytes_ += io.bytes;
  }
  return true;
}

Result<bool> Introduction::io_ended(const Io& io) {
  if (io.state == Io::State::kBlocked) return false;
  if (io.state == Io::State::kFailed) return stream_->failure();
  return Error{.code = ErrorCode::kPeerLost, .message = "connection closed before the greeting"};
}

}  // namespace tally::net
