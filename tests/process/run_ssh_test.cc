// `tally run` over a real ssh: a server on the loopback interface, started by the test with keys
// and a configuration of its own.
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "net/socket.h"
#include "process/launched.h"

namespace tally::process {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kServer = "/usr/sbin/sshd";
// A server that root starts wants this folder, though it keeps nothing there.
constexpr const char* kServerFolder = "/run/sshd";

class RunSsh : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kServer) || !fs::exists("/usr/bin/ssh-keygen") || !fs::exists("/usr/bin/ssh"))
      GTEST_SKIP() << "openssh-server and openssh-client are not installed";
    if (geteuid() != 0) GTEST_SKIP() << "only root can start a server that anybody can log in to";
    made_folder_ = fs::create_directory(kServerFolder);
    for (const char* key : {"host_key", "user_key"}) {
      Child keygen(
          {.command = {"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path(key)}});
      ASSERT_TRUE(keygen.exits(0)) << keygen.transcript();
    }
    fs::copy_file(path("user_key.pub"), path("authorized_keys"));
    start_server();
    // In place of ssh: with the test's own configuration, which a user has in ~/.ssh.
    std::ofstream(path("ssh_config")) << fmt::format(
        "Host a b\n HostName 127.0.0.1\n Port {}\n User root\n IdentityFile {}\n"
        " UserKnownHostsFile {}\n StrictHostKeyChecking accept-new\n LogLevel ERROR\n",
        port_, path("user_key"), path("known_hosts"));
    script(folder_, "ssh", fmt::format("exec /usr/bin/ssh -F {} \"$@\"", path("ssh_config")));
  }

  void TearDown() override {
    server_.reset();
    std::error_code ignored;
    if (made_folder_) fs::remove(kServerFolder, ignored);
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  void start_server() {
    std::ofstream(path("sshd_config")) << fmt::format(
        "Port {}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\n"
        "PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\n",
        port_, path("host_key"), path("authorized_keys"));
    server_ = std::make_unique<Child>(
        Child::Options{.command = {kServer, "-D", "-e", "-f", path("sshd_config")}});
    ASSERT_TRUE(server_->complains("Server listening")) << server_->transcript();
  }

  Launched::Variables variables() const {
    return {{"PATH", folder_.path() + ":/usr/local/bin:/usr/bin:/bin"}};
  }

  const Folder folder_;
  const std::uint16_t port_ = unused_port();
  std::unique_ptr<Child> server_;
  bool made_folder_ = false;
};

TEST_F(RunSsh, TwoHostsGetTheRightSums) {
  Launched job(
      {"--hosts", "a:2,b:2", "--master-addr", "127.0.0.1", "--env", "WORD=it's \"$x\"", "--", "sh",
       "-c", fmt::format("echo \"$WORD\"; exec {} sums 10", TALLY_WORKER_PROGRAM)},
      variables());
  EXPECT_TRUE(job.tally().exits(0)) << job.tally().transcript() << server_->transcript();
  for (const char* prefix : {"[0 a]", "[1 a]", "[2 b]", "[3 b]"}) {
    EXPECT_THAT(job.tally().transcript(), HasSubstr(std::string(prefix) + " sums 10 right\n"));
    EXPECT_THAT(job.tally().transcript(), HasSubstr(std::string(prefix) + " it's \"$x\"\n"));
  }
}

TEST_F(RunSsh, NobodySurvivesALauncherThatIsKilled) {
  Launched job({"--hosts", "a:2,b:2", "--", "sh", "-c", "(setsid sleep 1001 &) ; exec sleep 1002"},
               variables());
  ASSERT_TRUE(job.await("sleep 100", 8)) << job.tally().transcript() << server_->transcript();
  job.tally().signal(SIGKILL);
  EXPECT_TRUE(job.nobody_left(seconds(5)));
}

TEST_F(RunSsh, ARankThatFailsOverThereIsNamed) {
  Launched job({"--hosts", "a,b", "--", "sh", "-c", "[ $RANK = 1 ] && exit 5; exec sleep 100"},
               variables());
  EXPECT_TRUE(job.tally().exits(5)) << job.tally().transcript() << server_->transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("rank 1 on b (pid "));
}

TEST_F(RunSsh, AWrongKeyIsSaidAsSshSaysIt) {
  std::ofstream(path("authorized_keys")) << "\n";
  Launched job({"--hosts", "a,b", "--", "true"}, variables());
  EXPECT_TRUE(job.tally().exits(125)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("ssh exited with code 255"));
  EXPECT_THAT(job.tally().transcript(), HasSubstr("Permission denied"));
}

}  // namespace
}  // namespace tally::process
