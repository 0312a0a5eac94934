#pragma once
#include <poll.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "net/stream.h"
#include "tally/error.h"

namespace tally::net {

// The beginning of a connection: connecting, TLS handshake, greeting, answer. Never blocks: call
// advance() whenever poll() finds poll_entry() ready. Threads: calls must not overlap.
class GreetingExchange final {
 public:
  using Bytes = std::vector<std::byte>;

  // The side that connects. Its socket may still be connecting.
  struct Caller {
    Bytes greeting;
    std::size_t answer_bytes = 0;
    std::function<Result<void>(std::span<const std::byte> answer)> check;
  };
  // The side that accepts. `judge` is called once, with the whole greeting, and fills in `answer`,
  // which is sent even if `judge` returns an error; an empty answer is not sent.
  struct Host {
    std::size_t greeting_bytes = 0;
    std::function<Result<void>(std::span<const std::byte> greeting, Bytes& answer)> judge;
  };
  GreetingExchange(std::unique_ptr<Stream> stream, Caller caller);
  GreetingExchange(std::unique_ptr<Stream> stream, Host host);

  // True when both sides accept each other. An error is that of check() or judge(), or kRefused,
  // kPeerLost or kSystem from the stream.
  Result<bool> advance();

  pollfd poll_entry() const;
  const Stream& stream() const { return *stream_; }
  // The stream, also after an error.
  std::unique_ptr<Stream> take() { return std::move(stream_); }

 private:
  enum class Stage { kConnecting, kHandshake, kSend, kReceive, kDone };

  Result<bool> step();
  Result<bool> connected() const;
  Result<bool> send();
  Result<bool> receive();
  Result<bool> ended(const Io& io) const;
  void enter(Stage stage);

  std::unique_ptr<Stream> stream_;
  Caller caller_;
  Host host_;  // with a null judge: this is the connecting side
  Stage stage_;
  Bytes bytes_;  // being sent or received
  std::size_t moved_bytes_ = 0;
  std::optional<Error> refusal_;  // by judge(), once the answer is sent
};

}  // namespace tally::net
