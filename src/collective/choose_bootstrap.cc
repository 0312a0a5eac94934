#include "collective/choose_bootstrap.h"

#include <limits>

#include "base/errors.h"
#include "collective/slurm_lists.h"

namespace tally::collective {
namespace {

constexpr int kHighestPort = std::numeric_limits<std::uint16_t>::max();

// A way to find the rendezvous: kAddress at the address of the variables, or at the first host of
// the Slurm step.
struct Way {
  Bootstrap bootstrap = Bootstrap::kAddress;
  bool at_first_host = false;
};
constexpr Way kSlurmWay{Bootstrap::kAddress, true};

// The agent's own store then owns MASTER_PORT.
bool agent_listens(const Variables& variable) {
  return text_of(variable, "TORCHELASTIC_USE_AGENT_STORE") == "True";
}

Way usual_way(const LaunchFacts& facts, const Variables& variable) {
  switch (facts.launcher) {
    case Launcher::kNone:
    case Launcher::kVariables:
    case Launcher::kTally:
    case Launcher::kKubernetes:
      return {Bootstrap::kAddress};
    case Launcher::kTorchrun:
      return {facts.one_host() && agent_listens(variable) ? Bootstrap::kLocal
                                                          : Bootstrap::kAddress};
    case Launcher::kSlurm:
      if (facts.one_host()) return {Bootstrap::kLocal};
      return facts.has_pmix ? Way{Bootstrap::kPmix} : kSlurmWay;
    case Launcher::kOpenMpi:
      return {facts.one_host() ? Bootstrap::kLocal : Bootstrap::kPmix};
    case Launcher::kPmix:
      return {Bootstrap::kPmix};
    case Launcher::kHydra:
      return {facts.one_host() ? Bootstrap::kLocal : Bootstrap::kPmi};
  }
  return {Bootstrap::kAddress};
}

Result<Way> way_named(const std::string& name, const LaunchFacts& facts,
                      const Variables& variable) {
  if (name.empty() || name == "auto") return usual_way(facts, variable);
  struct Choice {
    std::string_view name;
    Way way;
    bool possible;
    std::string_view needs;
  };
  const Choice choices[] = {
      {"address", {Bootstrap::kAddress}, facts.size != 0, "size among its variables"},
      {"board", {Bootstrap::kLocal}, !facts.job_id.empty(), "name for its jobs"},
      {"pmix", {Bootstrap::kPmix}, facts.has_pmix, "PMIx server"},
      {"pmi", {Bootstrap::kPmi}, facts.pmi_descriptor >= 0, "PMI-1 server"},
      {"slurm", kSlurmWay, facts.launcher == Launcher::kSlurm, "Slurm step"}};
  for (const Choice& choice : choices) {
    if (choice.name != name) continue;
    if (choice.possible) return choice.way;
    return invalid("TALLY_MEET={}: {} has no {}", name, to_string(facts.launcher), choice.needs);
  }
  return invalid("TALLY_MEET={} is none of auto, address, area, pmix, pmi, slurm", name);
}

Result<void> meet_at_address(const LaunchFacts& facts, const Variables& variable,
                             JobOptions& options) {
  if (const char* const address = variable("MASTER_ADDR")) options.master_address = address;
  // A single rank meets no other: any port will do.
  const int usual = facts.size == 1 ? 0 : options.master_port;
  TALLY_TRY(int port, number(variable, "MASTER_PORT", 0, kHighestPort, usual));
  const bool taken = facts.launcher == Launcher::kTorchrun && agent_listens(variable);
  if (taken && facts.size > 1) port = port < kHighestPort ? port + 1 : port - 1;
  options.master_port = static_cast<std::uint16_t>(port);
  return {};
}

Result<void> meet_at_first_host(const LaunchFacts& facts, const Variables& variable,
                                JobOptions& options) {
  options.master_port = slurm_port(facts.job_id);
  if (variable("TALLY_MASTER_ADDR") != nullptr) return {};
  const char* const nodes = variable("SLURM_STEP_NODELIST");
  if (nodes == nullptr) return invalid("SLURM_STEP_ID is set, and SLURM_STEP_NODELIST is not");
  auto hosts = expand_hosts(nodes);
  if (!hosts.has_value()) return invalid("SLURM_STEP_NODELIST: " + hosts.error().message);
  options.master_address = hosts->front();
  return {};
}

}  // namespace

std::uint16_t slurm_port(std::string_view job_id) {
  // FNV-1a: neighbouring jobs and steps get ports far apart.
  std::uint32_t hash = 2166136261U;
  for (const char letter : job_id) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  return static_cast<std::uint16_t>(21000 + (hash >> 16 ^ hash) % 8192);
}

Result<void> choose_bootstrap(const LaunchFacts& facts, const Variables& variable,
                              JobOptions& options) {
  TALLY_TRY(const Way way, way_named(text_of(variable, "TALLY_MEET"), facts, variable));
  options.bootstrap = way.bootstrap;
  options.job_id = facts.job_id;
  options.pmi_descriptor = facts.pmi_descriptor;
  if (way.at_first_host) {
    TALLY_TRY(meet_at_first_host(facts, variable, options));
  } else if (way.bootstrap == Bootstrap::kAddress) {
    TALLY_TRY(meet_at_address(facts, variable, options));
  } else {
    options.master_port = 0;
  }
  if (const char* const address = variable("TALLY_MASTER_ADDR")) {
    options.master_address = address;
    // The other ranks learn it from the launcher.
    if (options.bootstrap != Bootstrap::kAddress) options.listen_on = address;
  }
  TALLY_TRY(const int port,
            number(variable, "TALLY_MASTER_PORT", 1, kHighestPort, options.master_port));
  options.master_port = static_cast<std::uint16_t>(port);
  if (const char* const interface = variable("TALLY_INTERFACE")) options.listen_on = interface;
  return {};
}

}  // namespace tally::collective
