#include "process/two_hosts.h"

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "process/child.h"

namespace tally::process {
namespace {

constexpr const char* kIp = "/usr/sbin/ip";
constexpr const char* kUnshare = "/usr/bin/unshare";
// Gives the host the name $0.
constexpr const char* kAsHost = "hostname \"$0\" && exec \"$@\"";
constexpr const char* kTc = "/usr/sbin/tc";
constexpr const char* kCable = "cable";  // the interface's name on both hosts
// No interface has this address: the other side drops packets to it.
constexpr const char* kNowhere = "02:00:00:00:00:01";

bool runs(const std::vector<std::string>& command) {
  Child child({.command = command});
  return child.exits(0);
}

void must_run(const std::vector<std::string>& command) {
  Child child({.command = command});
  ASSERT_TRUE(child.exits(0)) << fmt::format("{}: ", fmt::join(command, " ")) << child.transcript();
}

std::string output_of(const std::vector<std::string>& command) {
  Child child({.command = command});
  return child.line("").value_or("");
}

// The reason why there can be no hosts here; empty if there can be.
std::string obstacle_to_hosts() {
  for (const char* const tool : {kIp, kTc})
    if (access(tool, X_OK) != 0) return fmt::format("{} is missing: package iproute2", tool);
  if (geteuid() != 0) return "network namespaces need root";
  const std::string probe = fmt::format("tally-probe-{}", getpid());
  if (!runs({kIp, "netns", "add", probe})) return "network namespaces are not allowed here";
  const bool shaped = runs({kIp, "netns", "exec", probe, kTc, "qdisc", "add", "dev", "lo", "root",
                            "tbf", "rate", "1gbit", "burst", "256kb", "latency", "50ms"});
  must_run({kIp, "netns", "del", probe});
  return shaped ? "" : "the kernel has no token bucket filter (sch_tbf)";
}

}  // namespace

TwoHosts::TwoHosts()
    : names_{fmt::format("tally-a-{}", getpid()), fmt::format("tally-b-{}", getpid())} {
  for (const std::string& name : names_) must_run({kIp, "netns", "add", name});
  must_run({kIp, "link", "add", kCable, "netns", names_[0], "type", "veth", "peer", "name", kCable,
            "netns", names_[1]});
  for (int host = 0; host < 2; ++host) {
    must_run({kIp, "-n", name(host), "addr", "add", address(host) + "/24", "dev", kCable});
    must_run({kIp, "-n", name(host), "link", "set", "lo", "up"});
    must_run({kIp, "-n", name(host), "link", "set", kCable, "up"});
    // The bucket must hold several segments of 64 KiB, which the stack sends as one packet.
    must_run(on(host, {kTc, "qdisc", "add", "dev", kCable, "root", "tbf", "rate", "1gbit", "burst",
                       "256kb", "latency", "50ms"}));
    hardware_addresses_[static_cast<std::size_t>(host)] =
        output_of(on(host, {"/usr/bin/cat", fmt::format("/sys/class/net/{}/address", kCable)}));
  }
  heal();
  script(folder_, "shell",
         fmt::format("case $1 in\n{}) host={};;\n{}) host={};;\n"
                     "*) echo \"no host $1\" >&2; exit 255;;\nesac\nshift\n"
                     "exec {} netns exec $host {} --uts /bin/sh -c '{}' $host \"$@\"",
                     address(0), names_[0], address(1), names_[1], kIp, kUnshare, kAsHost));
}

TwoHosts::~TwoHosts() {
  for (const std::string& name : names_) runs({kIp, "netns", "del", name});
}

std::string TwoHosts::address(int host) { return fmt::format("10.77.0.{}", host + 1); }

std::vector<std::string> TwoHosts::on(int host, const std::vector<std::string>& command) const {
  std::vector<std::string> there = {kIp,     "netns",   "exec", name(host), kUnshare,
                                    "--uts", "/bin/sh", "-c",   kAsHost,    name(host)};
  there.insert(there.end(), command.begin(), command.end());
  return there;
}

std::uint64_t TwoHosts::sent_bytes(int host) const {
  return std::stoull(output_of(
      on(host, {"/usr/bin/cat", fmt::format("/sys/class/net/{}/statistics/tx_bytes", kCable)})));
}

void TwoHosts::direct_to(const std::array<std::string, 2>& hardware_addresses) const {
  for (int host = 0; host < 2; ++host) {
    const int other = 1 - host;
    must_run({kIp, "-n", name(host), "neigh", "replace", address(other), "lladdr",
              hardware_addresses[static_cast<std::size_t>(other)], "dev", kCable, "nud",
              "permanent"});
  }
}

void TwoHosts::cut() { direct_to({kNowhere, kNowhere}); }
void TwoHosts::heal() { direct_to(hardware_addresses_); }

std::string OnTwoHosts::missing_;
std::unique_ptr<TwoHosts> OnTwoHosts::hosts_;

void OnTwoHosts::SetUpTestSuite() {
  missing_ = obstacle_to_hosts();
  if (missing_.empty()) hosts_ = std::make_unique<TwoHosts>();
}

void OnTwoHosts::TearDownTestSuite() { hosts_.reset(); }

void OnTwoHosts::SetUp() {
  if (!missing_.empty()) GTEST_SKIP() << missing_;
  hosts_->heal();
}

}  // namespace tally::process
