#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/variables.h"
#include "tally/job.h"

namespace tally::collective {

// The facts that a program and an engine plugin compare before a C++ object may cross between them:
// both are built from these headers, by compilers with the same layout.
struct EngineAbi {
  std::uint32_t version = 2;
  std::uint32_t compiler = __GXX_ABI_VERSION;
  std::uint32_t options_bytes = sizeof(JobOptions);
  std::uint32_t request_bytes = sizeof(Request);
  std::uint32_t error_bytes = sizeof(Error);
  std::uint32_t string_bytes = sizeof(std::string);

  friend bool operator==(const EngineAbi&, const EngineAbi&) = default;
};

enum EngineOutcome : int { kEngineJoined = 0, kEngineFailed = 1, kEngineOtherAbi = 2 };

// The one function that a plugin exports. It joins and returns a Job that the caller owns
// (kEngineJoined), or an error (kEngineFailed). If `abi` is not the plugin's own it touches nothing
// else. It throws nothing.
inline constexpr const char* kEngineEntryName = "tally_engine_join";
using EngineEntry = int (*)(const EngineAbi* abi, const JobOptions* options, Job** job,
                            Error* error);

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
