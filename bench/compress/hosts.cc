#include "bench/compress/hosts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <fstream>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/errors.h"
#include "process/child_process.h"

namespace tally::bench::compress {
namespace {

constexpr const char* kTc = "/usr/sbin/tc";
constexpr const char* kUnshare = "/usr/bin/unshare";
constexpr const char* kCable = "cable";  // name of the interface on both hosts
// Each host has its own host name: $0.
constexpr const char* kAsHost = "hostname \"$0\" && exec \"$@\"";
constexpr auto kToolTimeout = std::chrono::seconds(20);

Result<std::string> tool(const std::vector<std::string>& command) {
  return process::output_of(command, SteadyClock().after(kToolTimeout));
}

}  // namespace

Result<void> check_link(const std::string& text) {
  if (text == "none") return {};
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  const std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  const bool known = unit == "kbit" || unit == "mbit" || unit == "gbit";
  if (parsed.ec == std::errc() && known && value > 0 && value < 1e6) return {};
  return invalid(fmt::format("'{}' is no speed such as 100mbit or 1gbit, and not none", text));
}

Hosts::Hosts(std::unique_ptr<process::TempDir> folder, const NamespaceOwner& self)
    : folder_(std::move(folder)), names_{namespace_name(self, 'a'), namespace_name(self, 'b')} {}

Hosts::~Hosts() = default;

Result<std::unique_ptr<Hosts>> Hosts::make() {
  for (const char* const program : {kIp, kTc})
    if (::access(program, X_OK) != 0)
      return invalid(fmt::format("{} is missing: package iproute2", program));
  if (::geteuid() != 0)
    return invalid("two hosts on one machine are network namespaces, which only root can make");
  TALLY_TRY(std::unique_ptr<process::TempDir> folder, process::TempDir::make());
  remove_left_over();
  TALLY_TRY(const NamespaceOwner self, this_owner());
  std::unique_ptr<Hosts> hosts(new Hosts(std::move(folder), self));
  TALLY_TRY(hosts->build());
  return hosts;
}

Result<void> Hosts::build() {
  TALLY_TRY(cleaner_, NamespaceCleaner::start({names_.begin(), names_.end()}));
  for (const std::string& name : names_) TALLY_TRY(tool({kIp, "netns", "add", name}));
  TALLY_TRY(tool({kIp, "link", "add", kCable, "netns", names_[0], "type", "veth", "peer", "name",
                  kCable, "netns", names_[1]}));
  std::string cases;
  for (int host = 0; host < 2; ++host) {
    const std::string& name = names_[static_cast<std::size_t>(host)];
    TALLY_TRY(tool({kIp, "-n", name, "addr", "add", address(host) + "/24", "dev", kCable}));
    TALLY_TRY(tool({kIp, "-n", name, "link", "set", "lo", "up"}));
    TALLY_TRY(tool({kIp, "-n", name, "link", "set", kCable, "up"}));
    cases += fmt::format("{}) host={};;\n", address(host), name);
  }
  std::ofstream script(remote_shell());
  script << "#!/bin/sh\ncase $1 in\n"
         << cases << "*) echo \"no host $1\" >&2; exit 255;;\nesac\nshift\nexec " << kIp
         << " netns exec $host " << kUnshare << " --uts /bin/sh -c '" << kAsHost
         << "' $host \"$@\"\n";
  script.close();
  if (!script || ::chmod(remote_shell().c_str(), 0700) != 0)
    return system_failure("cannot write " + remote_shell());
  return {};
}

Result<void> Hosts::shape(const std::string& link) {
  TALLY_TRY(check_link(link));
  for (int host = 0; host < 2; ++host) {
    // The stack sends segments of up to 64 KiB: the token bucket must hold several.
    if (link != "none") {
      TALLY_TRY(tool(on(host, {kTc, "qdisc", "replace", "dev", kCable, "root", "tbf", "rate", link,
                               "burst", "256kb", "latency", "50ms"})));
    } else if (is_shaped_) {
      TALLY_TRY(tool(on(host, {kTc, "qdisc", "del", "dev", kCable, "root"})));
    }
  }
  is_shaped_ = link != "none";
  return {};
}

std::string Hosts::address(int host) { return fmt::format("10.77.0.{}", host + 1); }

std::vector<std::string> Hosts::on(int host, const std::vector<std::string>& command) const {
  const std::string& name = names_.at(static_cast<std::size_t>(host));
  std::vector<std::string> there = {kIp,     "netns",   "exec", name,    kUnshare,
                                    "--uts", "/bin/sh", "-c",   kAsHost, name};
  there.insert(there.end(), command.begin(), command.end());
  return there;
}

Result<std::uint64_t> Hosts::sent_bytes() const {
  std::uint64_t sum = 0;
  for (int host = 0; host < 2; ++host) {
    TALLY_TRY(const std::string text,
              tool(on(host, {"/usr/bin/cat",
                             fmt::format("/sys/class/net/{}/statistics/tx_bytes", kCable)})));
    std::uint64_t bytes = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), bytes).ec != std::errc())
      return system_failure("'{}' is not a number of bytes", text);
    sum += bytes;
  }
  return sum;
}

}  // namespace tally::bench::compress
