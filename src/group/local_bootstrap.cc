#include "group/local_bootstrap.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "group/rendezvous_note.h"
#include "net/local_socket.h"
#include "net/socket.h"

namespace tally::group {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(2);
constexpr Duration kLongestPause = std::chrono::milliseconds(50);
// The pause after accept() failed for want of descriptors.
constexpr int kAcceptPauseMilliseconds = 100;

// The bytes that arrive before the peer closes; may be empty.
Result<std::string> read_to_end(const Descriptor& socket, Deadline by) {
  std::string text;
  std::array<char, kMaxNoteBytes> bytes;
  while (text.size() <= kMaxNoteBytes) {
    if (!net::wait_ready(socket.descriptor(), net::Readiness::kRead, by))
      return make_error(ErrorCode::kTimeout, "rank 0 does not answer");
    const ssize_t count = ::recv(socket.descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return corrupt("the note of rank 0 is too long");
}

Result<std::string> fetch_once(const std::string& name, Deadline by) {
  TALLY_TRY(const Descriptor socket, net::connect_locally(name));
  TALLY_TRY(net::peer_of_same_user(socket.descriptor()));
  return read_to_end(socket, by);
}

}  // namespace

std::string bootstrap_name(const std::string& job_id) {
  // FNV-1a with 64 bits; the beginning of the identity is for people.
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char letter : job_id)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  std::string start = job_id.substr(0, 40);
  std::replace(start.begin(), start.end(), ' ', '-');
  return fmt::format("tally-board-{}-{:016x}-{}", geteuid(), hash, start);
}

Result<std::unique_ptr<LocalBootstrap>> LocalBootstrap::offer(const std::string& name,
                                                              std::string note) {
  TALLY_TRY(Descriptor listener, net::listen_locally(name));
  Descriptor stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.open()) return net::socket_error("eventfd", errno);
  return std::unique_ptr<LocalBootstrap>(
      new LocalBootstrap(std::move(listener), std::move(stop), std::move(note)));
}

LocalBootstrap::LocalBootstrap(Descriptor listener, Descriptor stop, std::string note)
    : listener_(std::move(listener)),
      stop_(std::move(stop)),
      note_(std::move(note)),
      thread_([this] { serve(); }) {}

LocalBootstrap::~LocalBootstrap() {
  eventfd_write(stop_.descriptor(), 1);
  thread_.join();
}

void LocalBootstrap::serve() {
  std::set<pid_t> served;
  bool complained = false;
  while (true) {
    std::array<pollfd, 2> events{pollfd{listener_.descriptor(), POLLIN, 0},
                                 pollfd{stop_.descriptor(), POLLIN, 0}};
    if (::poll(events.data(), events.size(), -1) < 0) continue;
    if (events[1].revents != 0) return;
    const Descriptor caller(
        ::accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!caller.open()) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) continue;
      if (!std::exchange(complained, true))
        log_warning(
            fmt::format("local bootstrap: cannot accept connections: {}", std::strerror(errno)));
      // The waiting connection would wake this thread again and again.
      ::poll(&events[1], 1, kAcceptPauseMilliseconds);
      continue;
    }
    const auto pid = net::peer_of_same_user(caller.descriptor());
    if (!pid.has_value()) {
      log_warning("local bootstrap: refused a connection: " + pid.error().message);
    } else if (*pid == 0 || served.insert(*pid).second) {
      // An empty socket buffer takes the whole note; a peer that has left does not matter.
      (void)::send(caller.descriptor(), note_.data(), note_.size(), MSG_NOSIGNAL);
    }
  }
}

Result<std::string> fetch_note(const std::string& name, Deadline by) {
  Duration pause = kFirstPause;
  std::string last = "rank 0 has closed its socket";
  while (true) {
    auto note = fetch_once(name, by);
    if (note.has_value() && !note->empty()) return note;
    if (!note.has_value()) {
      if (note.error().code != ErrorCode::kSystem) return note;
      last = note.error().message;
    }
    const TimePoint now = SteadyClock().now();
    if (by.passed(now)) {
      return make_error(ErrorCode::kTimeout, 0,
                        "rank 0 did not publish its address on the local socket {}: {}", name,
                        last);
    }
    ::poll(nullptr, 0, net::poll_timeout(earlier(by, deadline_after(now, pause))));
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace tally::group
