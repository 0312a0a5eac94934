#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "server/link/greeting.h"
#include "server/link/link_socket.h"
#include "tally/error.h"

namespace tally::server {

// The handshake of a link: connect, TLS, greeting, answer. Never blocks. Threads: calls must not
// overlap.
class LinkHandshake final {
 public:
  // Decides about a greeting.
  using Judge = std::function<LinkAnswer(const LinkGreeting&)>;

  static LinkHandshake called(std::unique_ptr<LinkSocket> socket, Judge judge);
  // The connection may still be under way.
  static LinkHandshake calling(std::unique_ptr<LinkSocket> socket, const LinkGreeting& greeting);

  enum class Step { kWantsRead, kWantsWrite, kDone };
  // Advances as far as it can without blocking. kRefused: one side refuses the other; kPeerLost,
  // kCorrupt, kSystem.
  Result<Step> advance();

  // The result of the last advance().
  Step wants() const { return wants_; }

  int descriptor() const { return socket_->descriptor(); }
  // After kDone: the greeting of the caller and the answer.
  const LinkGreeting& greeting() const { return greeting_; }
  const LinkAnswer& answer() const { return answer_; }
  std::unique_ptr<LinkSocket> take_socket() { return std::move(socket_); }

 private:
  enum class State { kConnecting, kHandshake, kSaying, kHearing, kDone };

  LinkHandshake(std::unique_ptr<LinkSocket> socket, State state, bool called)
      : socket_(std::move(socket)), state_(state), called_(called) {}
  Result<Step> connected();
  Result<Step> handshake();
  Result<Step> say();
  Result<Step> hear();
  Result<void> understand_greeting();
  Result<void> understand_answer();
  Result<Step> end_of(const net::Io& io, Step blocked) const;

  std::unique_ptr<LinkSocket> socket_;
  State state_;
  bool called_;
  Step wants_ = Step::kWantsRead;
  Judge judge_;
  LinkGreeting greeting_;
  LinkAnswer answer_;
  std::array<std::byte, kLinkGreetingBytes>
      bytes_{};  // what is said or heard; the answer is shorter
  std::size_t due_bytes_ = 0;
  std::size_t moved_bytes_ = 0;
};

}  // namespace tally::server
