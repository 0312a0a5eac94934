// A job whose processes are all killed at once leaves nothing behind.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "net/socket.h"
#include "process/crew.h"

namespace tally::process {
namespace {

namespace fs = std::filesystem;

// Resources of a process that have a name outside of it.
struct Holdings {
  std::set<std::string> files;    // under /dev/shm and its temporary folder, open or mapped
  std::set<std::string> sockets;  // in /proc/net/unix, "@tally-..."
};

// Lines of /proc/net/unix end with inode and name; sockets without a name are left out.
std::map<std::string, std::string> local_sockets() {
  std::map<std::string, std::string> name_of_inode;
  std::ifstream table("/proc/net/unix");
  std::string word;
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::vector<std::string> fields;
    while (words >> word) fields.push_back(word);
    if (fields.size() == 8) name_of_inode[fields[6]] = fields[7];
  }
  return name_of_inode;
}

void collect(pid_t pid, const std::string& temp_folder, Holdings& holdings) {
  const auto sockets = local_sockets();
  const std::string process = "/proc/" + std::to_string(pid);
  const auto file = [&](const std::string& path) {
    if (path.rfind("/dev/shm/", 0) == 0 || path.rfind(temp_folder, 0) == 0)
      holdings.files.insert(path);
  };
  for (const auto& entry : fs::directory_iterator(process + "/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    file(target);
    if (target.rfind("socket:[", 0) != 0) continue;
    const auto found = sockets.find(target.substr(8, target.size() - 9));
    if (found != sockets.end()) holdings.sockets.insert(found->second);
  }
  std::ifstream maps(process + "/maps");
  for (std::string line; std::getline(maps, line);)
    if (const std::size_t path = line.find('/'); path != std::string::npos) file(line.substr(path));
}

std::set<std::string> shared_files_of_ours() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().find("tally") != std::string::npos)
      names.insert(entry.path());
  return names;
}

class Leftovers : public testing::TestWithParam<std::string> {
 protected:
  Leftovers() : crew_({.transport = GetParam()}), shared_before_(shared_files_of_ours()) {}

  void kill_all() {
    for (int i = 0; i < crew_.count(); ++i) collect(crew_[i].pid(), crew_.temp_folder(), holdings_);
    for (int i = 0; i < crew_.count(); ++i) crew_[i].signal(SIGKILL);
    for (int i = 0; i < crew_.count(); ++i) ASSERT_TRUE(crew_[i].wait_status().has_value());
  }

  void expect_nothing_left() {
    for (int i = 0; i < crew_.count(); ++i) EXPECT_NE(kill(crew_[i].pid(), 0), 0);
    for (const std::string& path : holdings_.files) EXPECT_FALSE(fs::exists(path)) << path;
    EXPECT_EQ(shared_files_of_ours(), shared_before_);
    EXPECT_TRUE(fs::is_empty(crew_.temp_folder()));
    for (const auto& [inode, name] : local_sockets())
      EXPECT_FALSE(holdings_.sockets.contains(name)) << name;
    const auto again = net::Listener::bind({"127.0.0.1", crew_.port()});
    EXPECT_TRUE(again.has_value()) << to_string(again.error());
  }

  Crew crew_;
  Holdings holdings_;

 private:
  const std::set<std::string> shared_before_;
};

TEST_P(Leftovers, NothingIsLeftOfAJobKilledAtWork) {
  crew_.start_all({"loop", "allreduce", "100000"});
  ASSERT_TRUE(crew_.all_say("ready"));
  kill_all();
  expect_nothing_left();
}

TEST_P(Leftovers, NothingIsLeftOfAJobKilledWhileJoining) {
  crew_.start(0, {"sums", "1"});
  crew_.start(1, {"sums", "1"});
  for (const std::int64_t end = now_ms() + kPatience.count();
       holdings_.sockets.size() < 2 && now_ms() < end;) {
    std::this_thread::sleep_for(milliseconds(20));
    for (int i = 0; i < crew_.count(); ++i) collect(crew_[i].pid(), crew_.temp_folder(), holdings_);
  }
  // These must be gone at the end.
  ASSERT_EQ(holdings_.sockets.size(), 2U);
  for (const std::string& name : holdings_.sockets) EXPECT_EQ(name.rfind("@tally-", 0), 0U) << name;
  kill_all();
  expect_nothing_left();
}

// The next job uses the same port immediately.
TEST_P(Leftovers, NextJobStartsInPlaceOfAKilledOne) {
  crew_.start_all({"loop", "allreduce", "100000"});
  ASSERT_TRUE(crew_.all_say("ready"));
  kill_all();
  for (Rank rank = 0; rank < 3; ++rank) crew_.start(rank, {"sums", "5"});
  for (int i = 3; i < 6; ++i)
    EXPECT_EQ(crew_[i].line("sums"), "sums 5 right") << crew_[i].transcript();
}

INSTANTIATE_TEST_SUITE_P(Process, Leftovers, testing::Values("shm", "tcp", "tls"), name_of);

}  // namespace
}  // namespace tally::process
