#include "apps/tally/commands.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/tally/doctor/doctor.h"
#include "apps/tally/launch/remote.h"
#include "process/child_process.h"
#include "process/interrupt.h"

namespace tally::app {
namespace {

using doctor::Finding;
using doctor::Findings;
using doctor::Level;

constexpr const char* kDoctorFooter = R"(
Examples:
  tally doctor
  tally doctor --all --json
  tally doctor --hosts node1,node2

Levels: ok; note: information; slow: a job runs slower than it could; PROBLEM: a job will fail.
Exit codes: 0 no problem was found; 1 a problem was found.)";

constexpr auto kCallTime = std::chrono::seconds(3);

struct DoctorOptions {
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

Findings examine_hosts(const DoctorOptions& options) {
  const process::InterruptGuard guard;
  doctor::HostsCheckOptions check{.hosts = options.hosts};
  if (!options.remote_shell.empty()) check.remote_shell = launch::words_of(options.remote_shell);
  check.remote_tally = options.remote_tally.empty() ? process::own_program() : options.remote_tally;
  Findings findings;
  for (const doctor::PeerFacts& facts : doctor::check_hosts(check))
    for (const Finding& finding : doctor::judge_peer(facts)) findings.push_back(finding);
  return findings;
}

int run_doctor(const DoctorOptions& options) {
  const doctor::MachineFacts machine = doctor::read_machine();
  std::vector<std::pair<std::string, Findings>> sections = {
      {fmt::format("Machine: {}, Linux {}", machine.host_name, machine.kernel),
       doctor::judge_machine(machine)},
      {"Software", doctor::judge_software(doctor::read_software())}};
  if (!options.hosts.empty()) sections.emplace_back("Hosts", examine_hosts(options));
  options.json ? print_json(sections) : print_text(sections, options.all);
  for (const auto& [title, findings] : sections)
    for (const Finding& finding : findings)
      if (finding.level == Level::kProblem) return 1;
  return 0;
}

Result<void> call(const net::Address& to) {
  TALLY_TRY(const doctor::ProbeAnswer answer, doctor::call_probe(to, Deadline::after(kCallTime)));
  fmt::print("{}\n", to_string(answer));
  return {};
}

void add_probe_command(Command& top) {
  Command probe = top.add_hidden_command("doctor-probe");
  probe.require_command();
  Command listen = probe.add_command("listen", "");
  const auto seconds = std::make_shared<int>(0);
  listen.add("seconds", seconds.get(), "", {.least = 1, .most = 3600, .required = true});
  listen.action([seconds] {
    return exit_code_of(doctor::serve_probe(Deadline::after(std::chrono::seconds(*seconds))));
  });
  Command caller = probe.add_command("call", "");
  const auto to = std::make_shared<net::Address>();
  caller.add("host", &to->host, "", {.required = true});
  caller.add("port", &to->port, "", {.required = true});
  caller.action([to] { return exit_code_of(call(*to)); });
}

}  // namespace

void add_doctor_command(Command top) {
  Command command = top.add_command(
      "doctor", "Check this machine: what works, what would slow a job, and the remedy");
  command.footer(kDoctorFooter);
  const auto o = std::make_shared<DoctorOptions>();
  command.add("--hosts", &o->hosts, "Also check the network between these hosts",
              {.value = "LIST", .commas = true});
  command.add("--remote-shell", &o->remote_shell,
              "Program that is called as PROGRAM HOST COMMAND...; default: ssh",
              {.value = "PROGRAM"});
  command.add("--remote-tally", &o->remote_tally, "Path of tally on the hosts; default: as here",
              {.value = "PATH"});
  command.add("--all", &o->all, "Also show the checks that passed");
  command.add("--json", &o->json, "Print everything as JSON");
  command.action([o] { return run_doctor(*o); });
  add_probe_command(top);
}

}  // namespace tally::app
