#include "apps/tally/doctor_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/tally/doctor/findings.h"
#include "apps/tally/doctor/hosts_check.h"
#include "apps/tally/doctor/probe.h"
#include "base/clock.h"
#include "process/child_process.h"
#include "process/interrupt.h"

namespace tally::app {
namespace {

using doctor::Finding;
using doctor::Findings;
using doctor::Level;

constexpr const char* kFooter = R"(
Examples:
  tally doctor
  tally doctor --all --json
  tally doctor --hosts node1,node2

Levels: ok; note, good to know; slow, a job runs slower than it could; PROBLEM, a job will fail.
Exit codes: 0 no problem was found; 1 there is one.)";

constexpr auto kCallTime = std::chrono::seconds(3);

struct Options {
  std::vector<std::string> hosts;
  std::string remote_shell;
  std::string remote_tally;
  bool all = false;
  bool json = false;
};

void print_text(const std::vector<std::pair<std::string, Findings>>& sections, bool all) {
  int hidden = 0;
  for (const auto& [title, findings] : sections) {
    fmt::print("{}\n", title);
    for (const Finding& finding : findings) {
      if (finding.level == Level::kOk && finding.advice.empty() && !all && title != "Hosts") {
        ++hidden;
        continue;
      }
      fmt::print("  {:<8} {:<16} {}\n", to_string(finding.level), finding.subject, finding.what);
      if (!finding.advice.empty()) fmt::print("  {:<8} {:<16} -> {}\n", "", "", finding.advice);
    }
  }
  if (hidden > 0) fmt::print("{} more are ok; --all shows them\n", hidden);
}

void print_json(const std::vector<std::pair<std::string, Findings>>& sections) {
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  for (const auto& [title, findings] : sections) {
    for (const Finding& finding : findings) {
      lines.push_back({{"section", title},
                       {"level", to_string(finding.level)},
                       {"subject", finding.subject},
                       {"what", finding.what},
                       {"advice", finding.advice}});
    }
  }
  fmt::print("{}\n", lines.dump(2));
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

Findings examine_hosts(const Options& options) {
  const process::InterruptGuard guard;
  doctor::HostsCheckOptions check{.hosts = options.hosts};
  if (!options.remote_shell.empty()) check.remote_shell = words_of(options.remote_shell);
  check.remote_tally = options.remote_tally.empty() ? process::own_program() : options.remote_tally;
  Findings findings;
  for (const doctor::PeerFacts& facts : doctor::check_hosts(check))
    for (Finding& finding : doctor::judge_peer(facts)) findings.push_back(std::move(finding));
  return findings;
}

int run(const Options& options) {
  const doctor::MachineFacts machine = doctor::read_machine();
  std::vector<std::pair<std::string, Findings>> sections = {
      {fmt::format("Machine: {}, Linux {}", machine.host_name, machine.kernel),
       doctor::judge_machine(machine)},
      {"Software", doctor::judge_software(doctor::read_software())}};
  if (!options.hosts.empty()) sections.emplace_back("Hosts", examine_hosts(options));
  if (options.json) {
    print_json(sections);
  } else {
    print_text(sections, options.all);
  }
  bool problem = false;
  for (const auto& [title, findings] : sections)
    for (const Finding& finding : findings) problem = problem || finding.level == Level::kProblem;
  return problem ? 1 : 0;
}

int end_of(const Result<void>& outcome) {
  if (!outcome) fmt::print(stderr, "{}\n", to_string(outcome.error()));
  return outcome ? 0 : 1;
}

Result<void> call(const std::string& host, std::uint16_t port) {
  TALLY_TRY(const doctor::ProbeAnswer answer,
            doctor::call_probe({.host = host, .port = port}, SteadyClock().after(kCallTime)));
  fmt::print("{}\n", to_string(answer));
  return {};
}

void add_probe_command(CLI::App& parent, int& exit_code) {
  CLI::App& probe = *parent.add_subcommand("doctor-probe");
  probe.group("");  // not listed in the help
  probe.require_subcommand(1);
  CLI::App& listen = *probe.add_subcommand("listen");
  const auto seconds = std::make_shared<int>(0);
  listen.add_option("seconds", *seconds)->required()->check(CLI::Range(1, 3600));
  listen.callback([seconds, &exit_code] {
    const Deadline by = SteadyClock().after(std::chrono::seconds(*seconds));
    exit_code = end_of(doctor::serve_probe(by));
  });
  CLI::App& caller = *probe.add_subcommand("call");
  const auto to = std::make_shared<net::Address>();
  caller.add_option("host", to->host)->required();
  caller.add_option("port", to->port)->required();
  caller.callback([to, &exit_code] { exit_code = end_of(call(to->host, to->port)); });
}

}  // namespace

void add_doctor_command(CLI::App& parent, int& exit_code) {
  CLI::App& command = *parent.add_subcommand(
      "doctor", "What this machine can do, what would slow a job, and what to do about it");
  command.footer(kFooter);
  const auto options = std::make_shared<Options>();
  command.add_option("--hosts", options->hosts, "Look also at the ways between these hosts")
      ->delimiter(',');
  command.add_option("--remote-shell", options->remote_shell,
                     "Program that is called as PROGRAM HOST COMMAND... (default: ssh)");
  command.add_option("--remote-tally", options->remote_tally,
                     "Path of tally on the hosts (default: as here)");
  command.add_flag("--all", options->all, "Show also what is in order");
  command.add_flag("--json", options->json, "Everything, as JSON");
  command.callback([options, &exit_code] { exit_code = run(*options); });
  add_probe_command(parent, exit_code);
}

}  // namespace tally::app
