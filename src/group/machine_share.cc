#include "group/machine_share.h"

#include <string>

#include "base/cpu.h"

namespace tally::group {

MachineShare machine_share(const Welcome& welcome, Rank rank) {
  const Hello& own = welcome.members[static_cast<std::size_t>(rank)];
  MachineShare share{.ranks = 0, .own_cores = count(own.cpus)};
  CpuSet together{};
  for (const Hello& member : welcome.members) {
    if (member.host_name != own.host_name) continue;
    ++share.ranks;
    for (std::size_t word = 0; word < together.size(); ++word) together[word] |= member.cpus[word];
  }
  share.cores = usable_cores(together);
  return share;
}

bool has_a_core_for_sending(const MachineShare& share, int hosts) {
  return hosts > 2 && share.own_cores >= 2 && 2 * share.ranks <= share.cores;
}

}  // namespace tally::group
