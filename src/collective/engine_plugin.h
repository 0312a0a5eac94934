#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tally/job.h"

namespace tally::collective {

using Variables = std::function<const char*(const char*)>;

enum class MpiKind { kOpenMpi, kMpich };

// The plugins to try, best first. TALLY_MPI decides; otherwise the library that the program has
// already loaded, which cannot be mixed with another; otherwise the launcher whose variables are
// set; otherwise either. kInvalid if TALLY_MPI names no MPI, or another than the program has
// loaded.
Result<std::vector<MpiKind>> mpi_candidates(const Variables& variable,
                                            std::optional<MpiKind> loaded);

// The folders of plugins, in this order: TALLY_PLUGIN_DIR alone if it is set; otherwise the folder
// of `program`, its lib/, the folder of an installation relative to it, and the folders known at
// build time.
std::vector<std::string> plugin_folders(const Variables& variable, const std::string& program);

// Joins with the engine of a plugin, which stays loaded. kInvalid, naming the package to install,
// if no plugin can be loaded.
Result<std::unique_ptr<Job>> join_by_plugin(const JobOptions& options, const Variables& variable);

}  // namespace tally::collective
