#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "net/stream.h"
#include "tally/error.h"
#include "wire/greeting.h"

namespace tally::net {

// One connection on its way to becoming the stream of a peer: handshake, greeting, answer. Never
// blocks: call advance() whenever descriptor() is ready for what wants_write() says.
class Introduction final {
 public:
  // The connecting side.
  Introduction(std::unique_ptr<Stream> stream, const wire::Greeting& greeting);
  // The accepting side. `judge` is asked once, when the greeting has come, and fills in the answer.
  using Judge = std::function<wire::GreetingAnswer(const wire::Greeting&)>;
  Introduction(std::unique_ptr<Stream> stream, Judge judge);

  // True when both sides know each other. kRefused, by this side or by the peer, with the reason;
  // kCorrupt if the peer speaks something else; kPeerLost.
  Result<bool> advance();

  int descriptor() const { return stream_->descriptor(); }
  bool wants_write() const;
  // Who called, once the greeting has come; kNoRank before.
  Rank caller() const { return caller_; }
  // Whether this side found the greeting good.
  bool welcomed() const { return caller_ != kNoRank && answer_.verdict == wire::Verdict::kWelcome; }
  std::unique_ptr<Stream> take() { return std::move(stream_); }

 private:
  enum class Stage { kHandshake, kGreeting, kAnswer, kDone };

  Result<bool> advance_caller();
  Result<bool> advance_host();
  Result<bool> send();
  Result<bool> receive(std::size_t bytes);
  Result<bool> io_ended(const Io& io);
  Result<void> judge_greeting();
  Result<void> check_answer() const;

  std::unique_ptr<Stream> stream_;
  const Judge judge_;  // null: the connecting side
  const wire::Greeting greeting_;
  Stage stage_ = Stage::kHandshake;
  std::vector<std::byte> bytes_;  // being sent or received
  std::size_t done_bytes_ = 0;
  Rank caller_ = kNoRank;
  wire::GreetingAnswer answer_;
};

}  // namespace tally::net
