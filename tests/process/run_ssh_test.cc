// `tally run` over a real ssh: the suite starts a server on the loopback interface with its own
// keys and configuration.
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/launched.h"

namespace tally::process {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kServer = "/usr/sbin/sshd";
// A server that root starts needs this folder, though it keeps nothing there.
constexpr const char* kServerFolder = "/run/sshd";

// An ssh server, and a program `ssh` in its folder that logs in to it under the names a and b.
class SshServer final {
 public:
  // The reason why there can be none here; empty if there can be.
  static std::string missing() {
    if (!fs::exists(kServer) || !fs::exists("/usr/bin/ssh-keygen") || !fs::exists("/usr/bin/ssh"))
      return "openssh-server and openssh-client are not installed";
    if (geteuid() != 0) return "only root can start a server that accepts logins";
    return "";
  }

  SshServer() {
    made_folder_ = fs::create_directory(kServerFolder);
    for (const char* key : {"host_key", "user_key"}) {
      Child keygen(
          {.command = {"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path(key)}});
      EXPECT_TRUE(keygen.exits(0)) << keygen.transcript();
    }
    accept_user_key(true);
    start_server();
    // A user has this configuration in ~/.ssh.
    write_file(path("ssh_config"),
               fmt::format("Host a b\n HostName 127.0.0.1\n Port {}\n User root\n"
                           " IdentityFile {}\n UserKnownHostsFile {}\n"
                           " StrictHostKeyChecking accept-new\n LogLevel ERROR\n",
                           port_, path("user_key"), path("known_hosts")));
    script(folder_, "ssh", fmt::format("exec /usr/bin/ssh -F {} \"$@\"", path("ssh_config")));
  }
  ~SshServer() {
    server_.reset();
    std::error_code ignored;
    if (made_folder_) fs::remove(kServerFolder, ignored);
  }
  SshServer(const SshServer&) = delete;
  SshServer& operator=(const SshServer&) = delete;

  void accept_user_key(bool accept) const {
    write_file(path("authorized_keys"), accept ? contents_of(path("user_key.pub")) : "\n");
  }
  Launched::Variables variables() const {
    return {{"PATH", folder_.path() + ":/usr/local/bin:/usr/bin:/bin"}};
  }
  std::string transcript() { return server_->transcript(); }

 private:
  std::string path(const std::string& name) const { return folder_.file(name); }

  void start_server() {
    write_file(path("sshd_config"),
               fmt::format("Port {}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\n"
                           "PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\n"
                           "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                           "MaxStartups 100\n",
                           port_, path("host_key"), path("authorized_keys")));
    server_ = std::make_unique<Child>(
        Child::Options{.command = {kServer, "-D", "-e", "-f", path("sshd_config")}});
    ASSERT_TRUE(server_->complains("Server listening")) << server_->transcript();
  }

  const Folder folder_;
  const std::uint16_t port_ = unused_port();
  std::unique_ptr<Child> server_;
  bool made_folder_ = false;
};

class RunSsh : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (SshServer::missing().empty()) server_ = std::make_unique<SshServer>();
  }
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override {
    if (server_ == nullptr) GTEST_SKIP() << SshServer::missing();
    server_->accept_user_key(true);
  }

  static std::unique_ptr<SshServer> server_;
};

std::unique_ptr<SshServer> RunSsh::server_;

TEST_F(RunSsh, TwoHostsGetTheRightSums) {
  Launched job(
      {"--hosts", "a:2,b:2", "--master-addr", "127.0.0.1", "--env", "WORD=it's \"$x\"", "--", "sh",
       "-c", fmt::format("echo \"$WORD\"; exec {} sums 10", TALLY_WORKER_PROGRAM)},
      server_->variables());
  EXPECT_TRUE(job.tally().exits(0)) << job.tally().transcript() << server_->transcript();
  for (const char* prefix : {"[0 a]", "[1 a]", "[2 b]", "[3 b]"}) {
    EXPECT_THAT(job.tally().transcript(), HasSubstr(std::string(prefix) + " sums 10 right\n"));
    EXPECT_THAT(job.tally().transcript(), HasSubstr(std::string(prefix) + " it's \"$x\"\n"));
  }
}

TEST_F(RunSsh, NobodySurvivesALauncherThatIsKilled) {
  Launched job({"--hosts", "a:2,b:2", "--", "sh", "-c", "(setsid sleep 1001 &) ; exec sleep 1002"},
               server_->variables());
  ASSERT_TRUE(job.await("sleep 100", 8)) << job.tally().transcript() << server_->transcript();
  job.tally().signal(SIGKILL);
  EXPECT_TRUE(job.nobody_left());
}

TEST_F(RunSsh, ARankThatFailsOnAnotherHostIsNamed) {
  Launched job({"--hosts", "a,b", "--", "sh", "-c", "[ $RANK = 1 ] && exit 5; exec sleep 100"},
               server_->variables());
  EXPECT_TRUE(job.tally().exits(5)) << job.tally().transcript() << server_->transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("rank 1 on b (pid "));
}

TEST_F(RunSsh, AWrongKeyIsReportedWithTheMessageOfSsh) {
  server_->accept_user_key(false);
  Launched job({"--hosts", "a,b", "--", "true"}, server_->variables());
  EXPECT_TRUE(job.tally().exits(125)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("ssh exited with code 255"));
  EXPECT_THAT(job.tally().transcript(), HasSubstr("Permission denied"));
}

}  // namespace
}  // namespace tally::process
