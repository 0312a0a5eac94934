#include "apps/tally/host_options.h"

#include <vector>

#include <fmt/format.h>

#include "apps/tally/launch/hosts.h"
#include "apps/tally/launch/remote.h"
#include "base/errors.h"
#include "base/file.h"

namespace tally::app {
namespace {

Result<std::vector<launch::Host>> hosts_of(const HostOptions& options, int ranks) {
  if (!options.hosts.empty()) return launch::parse_hosts(options.hosts);
  if (options.host_file.empty())
    return std::vector<launch::Host>{{.name = "localhost", .slots = ranks}};
  const auto text = file_contents(options.host_file);
  if (!text) return invalid("cannot read {}", options.host_file);
  auto hosts = launch::parse_host_file(*text);
  if (!hosts) hosts.error().message = options.host_file + ": " + hosts.error().message;
  return hosts;
}

}  // namespace

void add_host_options(Command& command, HostOptions& o) {
  command.add("--hosts", &o.hosts, "Hosts with the ranks of each: a:2,b:2", {.value = "LIST"});
  command.add("--hostfile", &o.host_file, "The same from a file, one host per line",
              {.value = "FILE", .excludes = {"--hosts"}});
  command.add("--remote-shell", &o.remote_shell,
              "Program that reaches all hosts, this one included, instead of ssh; words are "
              "separated by spaces",
              {.value = "PROGRAM"});
  command.add("--remote-tally", &o.remote_tally,
              "Path of tally on the hosts; default: its path here", {.value = "PATH"});
  command.add("--master-addr", &o.master_address,
              "Address of rank 0's host for the others; default: 127.0.0.1, or the first host as "
              "named",
              {.value = "ADDRESS"});
  command.add("--launcher-addr", &o.own_address,
              "Address of this machine for ranks on other hosts; default: the address that packets "
              "to them leave from",
              {.value = "ADDRESS"});
}

Result<void> set_hosts(const HostOptions& options, int ranks, launch::LaunchOptions& launch) {
  TALLY_TRY(const std::vector<launch::Host> hosts, hosts_of(options, ranks));
  TALLY_TRY(launch.places, launch::place_ranks(hosts, ranks));
  launch.remote_shell = launch::words_of(options.remote_shell);
  launch.remote_tally = options.remote_tally;
  launch.master_address = options.master_address;
  launch.own_address = options.own_address;
  return {};
}

}  // namespace tally::app
