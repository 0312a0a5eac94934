#include "net/acceptor.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/errors.h"
#include "base/log.h"
#include "net/local_socket.h"
#include "net/peer_user.h"

namespace tally::net {
namespace {

// Connections that one call takes from each listener.
constexpr int kBurst = 32;
// The pause after accept() failed for want of descriptors: a waiting connection would wake the
// thread again and again.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

void Place::update(const Stream& stream) {
  if (stream.authenticated()) return release();
  if (state_ != nullptr) state_->preferred = stream.showed_secret();
}

void Places::forget_released() {
  std::erase_if(taken_, [](const std::weak_ptr<State>& place) { return place.expired(); });
}

Place Places::take() {
  forget_released();
  while (taken_.size() >= capacity_) revoke_oldest();
  auto state = std::make_shared<State>();
  taken_.push_back(state);
  return Place(std::move(state));
}

bool Places::revoke_oldest() {
  forget_released();
  if (taken_.empty()) return false;
  auto oldest = std::find_if(taken_.begin(), taken_.end(), [](const std::weak_ptr<State>& place) {
    return !place.lock()->preferred;
  });
  if (oldest == taken_.end()) oldest = taken_.begin();
  oldest->lock()->revoked = true;
  taken_.erase(oldest);
  return true;
}

Result<Acceptor::Outcome> Acceptor::accept(TimePoint now) {
  Outcome outcome;
  if (now < paused_until_) return outcome;
  for (const auto next : {&Acceptor::accept_local, &Acceptor::accept_tcp}) {
    for (int i = 0; i < kBurst; ++i) {
      const auto found = (this->*next)(outcome);
      if (found.has_value() && !*found) break;
      if (found.has_value()) continue;
      // Out of descriptors: the holder of the revoked place closes one until the next call.
      if (places_.revoke_oldest()) return outcome;
      paused_until_ = now + kAcceptPause;
      if (outcome.arrivals.empty()) return found.error();
      return outcome;
    }
  }
  return outcome;
}

Result<bool> Acceptor::accept_tcp(Outcome& outcome) {
  if (options_.listener == nullptr) return false;
  TALLY_TRY(std::optional<Socket> socket, options_.listener->accept_now());
  if (!socket) return false;
  const auto address = peer_address(*socket);
  std::string from = address.has_value() ? to_string(*address) : "an unknown address";
  if (const auto checked = check_user(*socket); !checked.has_value()) {
    outcome.refused.push_back({std::move(from), checked.error()});
    return true;
  }
  auto stream = options_.streams->server(*std::move(socket));
  if (stream.has_value()) {
    outcome.arrivals.push_back({*std::move(stream), std::move(from), places_.take()});
  } else {
    outcome.refused.push_back({std::move(from), stream.error()});
  }
  return true;
}

Result<bool> Acceptor::accept_local(Outcome& outcome) {
  if (options_.local_listener == nullptr || !options_.local_listener->open()) return false;
  Descriptor socket(::accept4(options_.local_listener->descriptor(), nullptr, nullptr,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.open()) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    if (errno == EINTR || errno == ECONNABORTED) return true;
    return socket_error("accept on a local socket", errno);
  }
  if (const auto peer = peer_of_same_user(socket.descriptor()); !peer.has_value()) {
    outcome.refused.push_back({"this machine", peer.error()});
  } else {
    outcome.arrivals.push_back({local_stream(std::move(socket)), "this machine", Place()});
  }
  return true;
}

// A secret tells more than the user.
Result<void> Acceptor::check_user(const Socket& socket) {
  if (options_.streams->secure()) return {};
  const auto user = check_peer_user(socket.descriptor());
  if (!user.has_value() && user.error().code == ErrorCode::kPeerLost)
    return make_error(ErrorCode::kPeerLost, "it ended before it said who it is");
  TALLY_TRY(user);
  if (*user == PeerUser::kUnknown && !warned_) {
    warned_ = true;
    log_warning(
        "the kernel does not tell the users of connections (sock_diag): other users of this "
        "machine can join a job without a secret, and pose as its servers");
  }
  return {};
}

void Acceptor::add_to(std::vector<pollfd>& entries, TimePoint now) const {
  if (now < paused_until_) return;
  if (options_.listener != nullptr) entries.push_back({options_.listener->descriptor(), POLLIN, 0});
  if (options_.local_listener != nullptr && options_.local_listener->open())
    entries.push_back({options_.local_listener->descriptor(), POLLIN, 0});
}

}  // namespace tally::net
