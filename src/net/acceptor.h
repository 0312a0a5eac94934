#pragma once
#include <poll.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "net/socket.h"
#include "net/stream.h"
#include "net/stream_factory.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::net {

// The place of a connection that has not proven yet that it belongs to the job. A place is revoked
// when a newer connection needs it; the holder then closes the connection. Movable.
class Place final {
 public:
  // Never revoked.
  Place() = default;

  bool revoked() const { return state_ != nullptr && state_->revoked; }
  // Releases the place if the stream is authenticated. If the peer has shown the secret, the place
  // is revoked after those of all others.
  void update(const Stream& stream);
  // The connection belongs to the job: it needs no place any more.
  void release() { state_.reset(); }

 private:
  friend class Places;
  struct State {
    bool revoked = false;
    bool preferred = false;
  };
  explicit Place(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // shared with Places, which revokes
};

// A limited number of places. Everybody who can reach a port can fill them, so a new connection
// gets the place of the oldest. Threads: one.
class Places final {
 public:
  explicit Places(std::size_t capacity) : capacity_(capacity) {}

  Place take();
  // False if no place is taken.
  bool revoke_oldest();

 private:
  using State = Place::State;
  void forget_released();

  const std::size_t capacity_;
  std::deque<std::weak_ptr<State>> taken_;  // oldest first; expired: released
};

// A connection that was accepted.
struct Arrival {
  std::unique_ptr<Stream> stream;
  std::string from;  // for people: "10.0.0.7:4711", or "this machine" for a local socket
  Place place;       // of a local socket: never revoked
};

// Accepts the connections to a TCP listener and to a local socket, and keeps strangers from
// crowding out the peers:
//   - One call accepts a limited number, so that a flood does not keep the caller from other work.
//   - TCP connections that have proven nothing share a limited number of places. The owner of an
//     Arrival updates its place, releases it once the peer is accepted, and closes the connection
//     if the place is revoked.
//   - Without a secret, other users of this machine are refused. Local sockets refuse them always.
// Threads: one.
class Acceptor final {
 public:
  // For places: beyond the number of peers that may present themselves at the same time.
  static constexpr std::size_t kSpare = 64;

  struct Options {
    Listener* listener = nullptr;                // null: none
    const Descriptor* local_listener = nullptr;  // null, or not open: none
    const StreamFactory* streams = nullptr;      // for TCP
    std::size_t places = kSpare;
  };
  // All that `options` points to outlives the acceptor.
  explicit Acceptor(const Options& options) : options_(options), places_(options.places) {}

  struct Refusal {
    std::string from;
    Error why;
  };
  struct Outcome {
    std::vector<Arrival> arrivals;
    std::vector<Refusal> refused;
  };
  // Accepts pending connections; none during the pause after an error. An error, mostly kExhausted,
  // means that the process cannot accept connections now and there is no place to revoke.
  Result<Outcome> accept(TimePoint now);

  // Adds the listeners for poll(), except during a pause.
  void add_to(std::vector<pollfd>& entries, TimePoint now) const;
  // The end of the pause; in the past if there is none.
  TimePoint paused_until() const { return paused_until_; }

 private:
  // Whether a connection was pending, accepted or not.
  Result<bool> accept_tcp(Outcome& outcome);
  Result<bool> accept_local(Outcome& outcome);
  Result<void> check_user(const Socket& socket);

  const Options options_;
  Places places_;
  TimePoint paused_until_{};
  bool warned_ = false;  // that users are unknown
};

}  // namespace tally::net
