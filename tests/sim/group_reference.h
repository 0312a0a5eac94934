#pragma once
#include "sim/group_run.h"

// The sequential reference of runs with home=group, and the claims that compare runs with it.
namespace tally::sim {

// All ranks end with `version`, the same bits and the expected values.
void expect_one_model(const GroupRun& run, const GroupOutcome& outcome, std::uint64_t version);
// Survivors have whole versions, which differ by at most one, and errors that name a rank.
void expect_whole_versions(const GroupRun& run, const GroupOutcome& outcome);

}  // namespace tally::sim
