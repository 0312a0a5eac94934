#include "process/strangers.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <vector>

#include <gtest/gtest.h>

namespace tally::process {
namespace {

constexpr uid_t kNobody = 65534;
constexpr std::chrono::milliseconds kTurn(20);

// Whether the other side has not closed it; the other side may send a reason before.
bool still_open(const net::Socket& socket) {
  char bytes[256];
  const ssize_t count = ::recv(socket.descriptor(), bytes, sizeof(bytes), MSG_DONTWAIT);
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace

SilentConnections::SilentConnections(const net::Address& to, int count)
    : thread_([this, to, count](const std::stop_token& stop) {
        std::vector<net::Socket> sockets(static_cast<std::size_t>(count));
        while (!stop.stop_requested()) {
          for (net::Socket& socket : sockets) {
            if (socket.open() && still_open(socket)) continue;
            auto next = net::connect(to, Deadline::after(std::chrono::seconds(1)));
            socket = next.has_value() ? *std::move(next) : net::Socket();
            if (socket.open()) ++made_;
          }
          std::this_thread::sleep_for(kTurn);
        }
      }) {
  while (made() < count) std::this_thread::yield();
}

bool as_other_user(const std::function<bool()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool changed =
        ::setresgid(kNobody, kNobody, kNobody) == 0 && ::setresuid(kNobody, kNobody, kNobody) == 0;
    ::_exit(changed && act() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status == 0;
}

}  // namespace tally::process
