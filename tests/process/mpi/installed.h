#pragma once
#include <string>
#include <utility>
#include <vector>

namespace tally::process {

// The MPIs that plugins were built for: "openmpi", "mpich".
inline std::vector<std::string> installed_mpis() {
  std::vector<std::string> names;
  std::string name;
  for (const char c : std::string(TALLY_MPI_PLUGINS) + ",") {
    if (c != ',') {
      name += c;
    } else {
      names.push_back(std::exchange(name, {}));
    }
  }
  return names;
}

}  // namespace tally::process
