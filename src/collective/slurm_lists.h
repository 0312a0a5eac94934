#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::collective {

// The hosts of a list as Slurm writes it: "n[01-03,7],login" is n01, n02, n03, n7, login;
// "r[0-1]n[0-1]" is r0n0, r0n1, r1n0, r1n1. kInvalid if it is no such list, or names more hosts
// than a job has ranks.
Result<std::vector<std::string>> expand_hosts(std::string_view list);

// How many tasks node `node_index` has by a list like "4(x2),3": 4, 4, 3. kInvalid if the list does
// not cover it.
Result<int> tasks_on_node(std::string_view list, int node_index);

}  // namespace tally::collective
