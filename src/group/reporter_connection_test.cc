#include "group/reporter_connection.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "net/socket.h"

namespace tally::group {
namespace {

using namespace std::chrono_literals;

// Reads what has arrived. Returns whether the peer still has the connection.
bool is_open(const net::Socket& socket) {
  std::array<char, 4096> bytes;
  ssize_t count = 1;
  while (count > 0) count = ::recv(socket.descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

// A coordinator that is short of time answers late, and refuses the connection that the rank then
// tries. It would take the end of the first connection for the end of the rank.
TEST(ReporterConnection, KeepsASilentConnectionWhileAnotherIsRefused) {
  auto listener = net::Listener::bind({.host = "127.0.0.1", .port = 0});
  ASSERT_TRUE(listener.has_value());
  ReporterConnection rank({.coordinator = listener->address(), .secret = {}, .heartbeat = 1s});
  TimePoint now = 1000s;
  const auto next_connection = [&] {
    for (int looks = 0; looks < 1000; ++looks) {
      now += 500ms;
      (void)rank.advance({}, now);
      auto accepted = listener->accept_now();
      if (accepted.has_value() && accepted->has_value()) {
        (void)rank.advance({}, now);
        return std::move(**accepted);
      }
    }
    return net::Socket();
  };
  const net::Socket first = next_connection();
  ASSERT_TRUE(is_open(first));
  for (int refused = 0; refused < 3; ++refused) {
    const net::Socket second = next_connection();
    ASSERT_TRUE(is_open(second)) << "the rank tries another connection";
    ::shutdown(second.descriptor(), SHUT_RDWR);
    for (int looks = 0; looks < 10; ++looks) (void)rank.advance({}, now += 10ms);
    EXPECT_TRUE(rank.open());
    EXPECT_TRUE(is_open(first));
  }
}

}  // namespace
}  // namespace tally::group
