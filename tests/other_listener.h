#pragma once
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "net/socket.h"
#include "soon.h"

namespace tally {

// A process of another user (nobody) that listens on a loopback port until the object is destroyed.
// Needs root, and a test program without other threads.
class OtherListener final {
 public:
  enum class Accepts { kNothing, kOne };

  explicit OtherListener(Accepts accepts) {
    int to_child[2];
    int from_child[2];
    if (::pipe2(to_child, O_CLOEXEC) != 0 || ::pipe2(from_child, O_CLOEXEC) != 0) {
      ADD_FAILURE() << "no pipe";
      return;
    }
    child_ = ::fork();
    if (child_ == 0) {
      ::close(to_child[1]);
      ::_exit(listen(accepts, to_child[0], from_child[1]) ? 0 : 1);
    }
    ::close(to_child[0]);
    ::close(from_child[1]);
    end_ = to_child[1];
    answers_ = from_child[0];
    EXPECT_EQ(::read(answers_, &port_, sizeof(port_)), static_cast<ssize_t>(sizeof(port_)));
  }
  ~OtherListener() {
    if (child_ <= 0) return;
    ::close(end_);
    ::close(answers_);
    int status = 0;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
  }
  OtherListener(const OtherListener&) = delete;
  OtherListener& operator=(const OtherListener&) = delete;

  net::Address address() const { return {.host = "127.0.0.1", .port = port_}; }
  // Waits until the process has accepted a connection.
  void await_accepted() const {
    char done = 0;
    EXPECT_EQ(::read(answers_, &done, 1), 1);
  }

 private:
  static bool listen(Accepts accepts, int end, int answers) {
    constexpr uid_t kNobody = 65534;
    if (::setresgid(kNobody, kNobody, kNobody) != 0 || ::setresuid(kNobody, kNobody, kNobody) != 0)
      return false;
    auto listener = net::Listener::bind({.host = "127.0.0.1"});
    if (!listener.has_value()) return false;
    const std::uint16_t port = listener->address().port;
    if (::write(answers, &port, sizeof(port)) != static_cast<ssize_t>(sizeof(port))) return false;
    net::Socket accepted;
    if (accepts == Accepts::kOne) {
      auto socket = listener->accept(soon());
      if (!socket.has_value() || ::write(answers, "", 1) != 1) return false;
      accepted = *std::move(socket);
    }
    char none = 0;
    return ::read(end, &none, 1) == 0;
  }

  pid_t child_ = -1;
  int end_ = -1;
  int answers_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace tally
