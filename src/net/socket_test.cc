#include "net/socket.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <chrono>

#include <gtest/gtest.h>
#include "soon.h"

namespace tally::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SocketOn : public testing::TestWithParam<const char*> {};

TEST_P(SocketOn, ConnectedEndsExchangeBytes) {
  auto listener = Listener::bind({.host = GetParam(), .port = 0});
  if (!listener) GTEST_SKIP() << listener.error().message;
  EXPECT_NE(listener->address().port, 0);
  auto caller = connect({.host = GetParam(), .port = listener->address().port}, soon());
  ASSERT_TRUE(caller.has_value()) << caller.error().message;
  auto host = listener->accept(soon());
  ASSERT_TRUE(host.has_value()) << host.error().message;

  ASSERT_EQ(::send(caller->descriptor(), "ping", 4, MSG_NOSIGNAL), 4);
  ASSERT_TRUE(wait_ready(host->descriptor(), Readiness::kRead, soon()));
  char heard[8] = {};
  EXPECT_EQ(::recv(host->descriptor(), heard, sizeof(heard), 0), 4);
  EXPECT_STREQ(heard, "ping");
  for (const int descriptor : {caller->descriptor(), host->descriptor(), listener->descriptor()}) {
    EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(::fcntl(descriptor, F_GETFL) & O_NONBLOCK, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Addresses, SocketOn, testing::Values("127.0.0.1", "::1", "localhost"));

TEST(Socket, AddressReadsAsUsersWriteIt) {
  EXPECT_EQ(to_string(Address{.host = "10.0.0.1", .port = 80}), "10.0.0.1:80");
  EXPECT_EQ(to_string(Address{.host = "::1", .port = 80}), "[::1]:80");
}

// The listener of this port is closed, so the connection is refused; the error names the address.
TEST(Socket, RefusedConnectionNamesTheAddress) {
  Address gone;
  {
    auto listener = Listener::bind({.host = "127.0.0.1"});
    ASSERT_TRUE(listener.has_value());
    gone = listener->address();
  }
  const auto socket = connect(gone, soon());
  ASSERT_FALSE(socket.has_value());
  EXPECT_EQ(socket.error().code, ErrorCode::kSystem);
  EXPECT_NE(socket.error().message.find(to_string(gone)), std::string::npos);

  const auto retried = connect_retrying(gone, Deadline::after(milliseconds(30)));
  ASSERT_FALSE(retried.has_value());
  EXPECT_EQ(retried.error().code, ErrorCode::kTimeout);
  EXPECT_NE(retried.error().message.find(to_string(gone)), std::string::npos);
}

TEST(Socket, TakenPortIsRefusedToTheSecondListener) {
  auto first = Listener::bind({.host = "127.0.0.1"});
  ASSERT_TRUE(first.has_value());
  const auto second = Listener::bind(first->address());
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message.find(to_string(first->address())), std::string::npos);
}

TEST(Socket, UnknownNameIsAnError) {
  const auto endpoints = resolve({.host = "no such name", .port = 1});
  ASSERT_FALSE(endpoints.has_value());
  EXPECT_NE(endpoints.error().message.find("no such name"), std::string::npos);
}

TEST(Socket, AcceptEndsAtItsDeadline) {
  auto listener = Listener::bind({.host = "127.0.0.1"});
  ASSERT_TRUE(listener.has_value());
  const auto nobody = listener->accept(Deadline::after(milliseconds(10)));
  ASSERT_FALSE(nobody.has_value());
  EXPECT_EQ(nobody.error().code, ErrorCode::kTimeout);
  const auto now = listener->accept_now();
  ASSERT_TRUE(now.has_value());
  EXPECT_FALSE(now->has_value());
}

}  // namespace
}  // namespace tally::net
