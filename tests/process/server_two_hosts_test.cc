// Parameter servers and workers on two hosts: network namespaces with a cable between them, and TLS
// over it.
#include <sys/stat.h>

#include <fstream>

#include <gtest/gtest.h>

#include "process/child.h"
#include "process/two_hosts.h"

namespace tally::process {
namespace {

class ServersOnTwoHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = TwoHosts::missing(); !why.empty()) GTEST_SKIP() << why;
    hosts_.emplace();
    secret_ = folder_.path() + "/secret";
    std::ofstream(secret_) << std::string(32, 's');
    ::chmod(secret_.c_str(), 0600);
    directory_ = start(0, {TALLY_PROGRAM, "serve", "--directory", "--servers", "2", "--listen",
                           TwoHosts::address(0) + ":0", "--secret-file", secret_});
    const auto line = directory_->line_with("directory at ");
    ASSERT_TRUE(line.has_value()) << directory_->transcript();
    const std::size_t at = line->find("directory at ") + 13;
    address_ = line->substr(at, line->find(',') - at);
  }

  std::unique_ptr<Child> start(int host, const std::vector<std::string>& command) const {
    return std::make_unique<Child>(Child::Options{hosts_->on(host, command), {}});
  }
  std::unique_ptr<Child> server(int host) const {
    return start(host, {TALLY_PROGRAM, "serve", "--server", "--directory-at", address_, "--listen",
                        TwoHosts::address(host) + ":0", "--secret-file", secret_});
  }
  std::unique_ptr<Child> worker(int host, int rank, const std::vector<std::string>& more) const {
    std::vector<std::string> command = {
        TALLY_SERVER_WORKER, std::to_string(rank), "--directory", address_, "--secret", secret_};
    command.insert(command.end(), more.begin(), more.end());
    return start(host, command);
  }

  std::optional<TwoHosts> hosts_;
  const Folder folder_;
  std::string secret_;
  std::string address_;
  std::unique_ptr<Child> directory_;
};

TEST_F(ServersOnTwoHosts, SumsAreExactOverTls) {
  const auto near = server(0);
  const auto far = server(1);
  const auto first = worker(0, 0, {"--count", "5"});
  const auto second = worker(1, 1, {"--count", "5"});
  EXPECT_TRUE(first->line("done 5").has_value()) << first->transcript() << near->transcript();
  EXPECT_TRUE(second->line("done 5").has_value()) << second->transcript() << far->transcript();
  const auto reader = worker(1, 7, {"--check", "5", "--workers", "2"});
  EXPECT_TRUE(reader->exits(0)) << reader->transcript();
  // What was pushed has crossed the cable.
  EXPECT_GT(hosts_->sent_bytes(1), std::uint64_t{1} << 20);
}

TEST_F(ServersOnTwoHosts, AWrongSecretIsRefused) {
  const auto near = server(0);
  const auto far = server(1);
  const std::string other = folder_.path() + "/other";
  std::ofstream(other) << std::string(32, 'x');
  const auto stranger = start(
      1, {TALLY_SERVER_WORKER, "0", "--directory", address_, "--secret", other, "--join", "1"});
  EXPECT_TRUE(stranger->exits(1)) << stranger->transcript();
  EXPECT_TRUE(stranger->complains("kRefused")) << stranger->transcript();
  EXPECT_TRUE(directory_->line_with("has another secret").has_value()) << directory_->transcript();
}

}  // namespace
}  // namespace tally::process
