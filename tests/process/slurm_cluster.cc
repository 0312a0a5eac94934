#include "process/slurm_cluster.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "base/check.h"
#include "group/host.h"
#include "process/under_launcher.h"

namespace tally::process {
namespace {

// Random bytes in a file that only this user can read.
void write_random(const std::string& path, std::size_t bytes) {
  std::string content(bytes, '\0');
  TALLY_CHECK(getrandom(content.data(), bytes, 0) == static_cast<ssize_t>(bytes));
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  TALLY_CHECK(write(file.descriptor(), content.data(), bytes) == static_cast<ssize_t>(bytes));
}

std::string user_name() {
  const passwd* const entry = getpwuid(geteuid());
  return entry == nullptr ? "root" : entry->pw_name;
}

// The parent of slurmstepd is init, because slurmd leaves them. The test adopts them in order to
// see that they end.
void adopt_orphans(bool adopt) { prctl(PR_SET_CHILD_SUBREAPER, adopt ? 1 : 0); }

// Waits for the adopted processes; false if one does not end.
bool orphans_end() {
  const std::int64_t end = now_ms() + kPatience.count();
  while (now_ms() < end) {
    const pid_t ended = waitpid(-1, nullptr, WNOHANG);
    if (ended < 0) return true;
    if (ended == 0) std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

}  // namespace

std::string SlurmCluster::missing_package() {
  const std::array<std::pair<const char*, const char*>, 4> needed{{{"munged", "munge"},
                                                                   {"slurmctld", "slurmctld"},
                                                                   {"slurmd", "slurmd"},
                                                                   {"srun", "slurm-client"}}};
  for (const auto& [program, package] : needed)
    if (program_path(program).empty()) return package;
  return "";
}

SlurmCluster::SlurmCluster() {
  adopt_orphans(true);
  // munged requires that other users can reach its socket.
  TALLY_CHECK(chmod(folder_.path().c_str(), 0711) == 0);
  write_random(in_folder("munge.key"), 1024);
  write_random(in_folder("secret"), 32);
  write_configuration();
  start({"munged", "--foreground", "--force", "--socket=" + in_folder("munge.socket"),
         "--key-file=" + in_folder("munge.key"), "--pid-file=" + in_folder("munged.pid"),
         "--seed-file=" + in_folder("munge.seed"), "--log-file=" + in_folder("munged.log")});
  const std::int64_t end = now_ms() + kPatience.count();
  while (!std::filesystem::exists(in_folder("munge.socket")) && now_ms() < end)
    std::this_thread::sleep_for(milliseconds(20));
  const std::string configuration = in_folder("slurm.conf");
  start({"slurmctld", "-D", "-c", "-f", configuration});
  for (const char* node : {"n1", "n2"}) start({"slurmd", "-D", "-N", node, "-f", configuration});
}

SlurmCluster::~SlurmCluster() {
  for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon) {
    (*daemon)->signal(SIGTERM);
    (*daemon)->wait_status();
  }
  daemons_.clear();
  EXPECT_TRUE(orphans_end()) << "a process of Slurm is left";
  adopt_orphans(false);
}

void SlurmCluster::write_configuration() const {
  std::string host = group::host_name();
  host = host.substr(0, host.find('.'));
  std::ofstream file(in_folder("slurm.conf"));
  file << fmt::format(
      "ClusterName=tally\n"
      "SlurmctldHost={host}(127.0.0.1)\n"
      "SlurmUser={user}\n"
      "SlurmdUser={user}\n"
      "AuthType=auth/munge\n"
      "AuthInfo=socket={folder}/munge.socket\n"
      "CredType=cred/munge\n"
      "SlurmctldPort={port}\n"
      "StateSaveLocation={folder}/state\n"
      "SlurmdSpoolDir={folder}/spool-%n\n"
      "SlurmctldPidFile={folder}/slurmctld.pid\n"
      "SlurmdPidFile={folder}/slurmd-%n.pid\n"
      "ProctrackType=proctrack/linuxproc\n"
      "TaskPlugin=task/none\n"
      "SwitchType=switch/none\n"
      "JobAcctGatherType=jobacct_gather/none\n"
      "AccountingStorageType=accounting_storage/none\n"
      "SelectType=select/cons_tres\n"
      "SelectTypeParameters=CR_Core\n"
      "MpiDefault=none\n"
      // The nodes have more processors than the machine may have.
      "SlurmdParameters=config_overrides\n"
      "NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=4 RealMemory=100\n"
      "NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=4 RealMemory=100\n"
      "PartitionName=test Nodes=ALL Default=YES State=UP\n",
      fmt::arg("host", host), fmt::arg("user", user_name()), fmt::arg("folder", folder_.path()),
      fmt::arg("port", unused_port()), fmt::arg("first", unused_port()),
      fmt::arg("second", unused_port()));
  std::filesystem::create_directory(in_folder("state"));
}

Child& SlurmCluster::start(std::vector<std::string> command) {
  command.front() = program_path(command.front());
  daemons_.push_back(std::make_unique<Child>(Child::Options{command, variables()}));
  return *daemons_.back();
}

bool SlurmCluster::ready() {
  const std::int64_t end = now_ms() + kPatience.count();
  while (now_ms() < end) {
    Child query({.command = {program_path("sinfo"), "--noheader", "--Node", "--format=%T"},
                 .variables = variables()});
    int idle = 0;
    while (const auto line = query.line("")) idle += line->rfind("idle", 0) == 0 ? 1 : 0;
    if (query.exits(0) && idle == 2) return true;
    std::this_thread::sleep_for(milliseconds(100));
  }
  return false;
}

std::map<std::string, std::string> SlurmCluster::variables() const {
  return {{"SLURM_CONF", in_folder("slurm.conf")}};
}

std::string SlurmCluster::secret_file() const { return in_folder("secret"); }

std::string SlurmCluster::transcript() {
  std::string all;
  for (const auto& daemon : daemons_) all += daemon->transcript() + "\n";
  return all;
}

}  // namespace tally::process
