// Parameter servers and workers on two hosts with a cable between them, and TLS over it.
#include <gtest/gtest.h>

#include "process/server_crew.h"
#include "process/two_hosts.h"

namespace tally::process {
namespace {

class ServersOnTwoHosts : public OnTwoHosts {
 protected:
  void SetUp() override {
    OnTwoHosts::SetUp();
    if (IsSkipped()) return;
    secret_ = write_secret(folder_, "secret", 's');
    directory_ = start(0, {TALLY_PROGRAM, "serve", "--directory", "--servers", "2", "--listen",
                           TwoHosts::address(0) + ":0", "--secret-file", secret_});
    address_ = directory_address(*directory_);
  }

  std::unique_ptr<Child> start(int host, const std::vector<std::string>& command) const {
    return std::make_unique<Child>(Child::Options{hosts().on(host, command), {}});
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
  // The pushed values have crossed the cable.
  EXPECT_GT(hosts().sent_bytes(1), std::uint64_t{1} << 20);
}

TEST_F(ServersOnTwoHosts, AWrongSecretIsRefused) {
  const auto near = server(0);
  const auto far = server(1);
  const std::string other = write_secret(folder_, "other", 'x');
  const auto stranger =
      start(1, {TALLY_SERVER_WORKER, "0", "--directory", address_, "--secret", other});
  EXPECT_TRUE(stranger->exits(1)) << stranger->transcript();
  EXPECT_TRUE(stranger->complains("kRefused")) << stranger->transcript();
  EXPECT_TRUE(directory_->line_with("has another secret").has_value()) << directory_->transcript();
}

}  // namespace
}  // namespace tally::process
