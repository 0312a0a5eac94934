#include "group/machine_share.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/cpu.h"

namespace tally::group {

namespace {

struct Machine {
  int ranks = 0;
  CpuSet cpus{};  // of all its ranks together
};

// By host name.
std::map<std::string, Machine> machines_of(const Welcome& welcome) {
  std::map<std::string, Machine> machines;
  for (const Hello& member : welcome.members) {
    Machine& machine = machines[member.host_name];
    ++machine.ranks;
    for (std::size_t word = 0; word < machine.cpus.size(); ++word)
      machine.cpus[word] |= member.cpus[word];
  }
  return machines;
}

}  // namespace

MachineShare machine_share(const Welcome& welcome, Rank rank) {
  const Hello& own = welcome.members[static_cast<std::size_t>(rank)];
  const Machine machine = machines_of(welcome).at(own.host_name);
  return {
      .ranks = machine.ranks, .cores = usable_cores(machine.cpus), .own_cores = count(own.cpus)};
}

bool all_ranks_have_two_cores(const Welcome& welcome) {
  for (const auto& [name, machine] : machines_of(welcome))
    if (2 * machine.ranks > count(machine.cpus)) return false;
  return std::all_of(welcome.members.begin(), welcome.members.end(),
                     [](const Hello& member) { return count(member.cpus) >= 2; });
}

bool has_a_core_for_sending(const MachineShare& share, int hosts) {
  return hosts > 2 && share.own_cores >= 2 && 2 * share.ranks <= share.cores;
}

}  // namespace tally::group
