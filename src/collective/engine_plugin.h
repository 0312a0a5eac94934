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

// The plugins to try, best first. TALLY_MPI decides; else the library that the program has already
// loaded, which cannot be mixed with another; else the launcher whose variables are set; else
// either. kInvalid if TALLY_MPI names no MPI, or another than the program has loaded.
Result<std::vector<MpiKind>> mpi_candidates(const Variables& variable,
                                            std::optional<MpiKind> loaded);

// Where plugins are looked for, in this order: TALLY_PLUGIN_DIR alone if it is set; else the folder
// of `program`, lib/ in it, where an installation has them seen from there, and the folders known
// when this was built.
std::vector<std::string> plugin_folders(const Variables& variable, const std::string& program);

// Joins by the engine in a plugin, which stays loaded from then on. kInvalid, saying what to
// install, if there is none that can be loaded.
Result<std::unique_ptr<Job>> join_by_plugin(const JobOptions& options, const Variables& variable);

}  // namespace tally::collective
