#include "apps/tally/launch/agent_resources.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "group/secret_text.h"

#include "net/socket.h"

namespace tally::launch {
namespace {

TEST(HeldPort, RankZeroCanListenThereAndBeReached) {
  const auto held = hold_port();
  ASSERT_TRUE(held.has_value()) << held.error().message;
  // The port has no listener yet: the connection is refused, and the caller retries.
  EXPECT_FALSE(net::connect({"127.0.0.1", held->port}, Deadline::never()).has_value());
  for (int start = 0; start < 2; ++start) {
    auto listener = net::Listener::bind({"127.0.0.1", held->port});
    ASSERT_TRUE(listener.has_value()) << listener.error().message;
    const auto guest = net::connect({"127.0.0.1", held->port}, Deadline::never());
    ASSERT_TRUE(guest.has_value()) << guest.error().message;
    EXPECT_TRUE(listener->accept(Deadline::never()).has_value());
  }
}

TEST(HeldPort, NobodyElseIsGivenIt) {
  const auto held = hold_port();
  const auto other = hold_port();
  ASSERT_TRUE(held.has_value() && other.has_value());
  EXPECT_NE(held->port, other->port);
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(held->port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_NE(
      ::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
}

TEST(Secrets, AreReadByTheirUserAloneWhileTheyAreHeld) {
  const auto secret = group::fresh_secret();
  ASSERT_TRUE(secret.has_value());
  EXPECT_NE(secret->bytes, group::fresh_secret()->bytes);
  std::string path;
  {
    const auto memory = secret_in_memory(*secret);
    ASSERT_TRUE(memory.has_value()) << memory.error().message;
    path = fmt::format("/proc/{}/fd/{}", ::getpid(), memory->descriptor());
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
    // Each reader starts at the beginning of the file, as each rank does.
    for (int reader = 0; reader < 2; ++reader) {
      const auto options = options_from([&path](const char* name) -> const char* {
        return std::string(name) == "TALLY_SECRET_FILE" ? path.c_str() : nullptr;
      });
      ASSERT_TRUE(options.has_value()) << options.error().message;
      EXPECT_EQ(options->secret->bytes, secret->bytes);
    }
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace tally::launch
