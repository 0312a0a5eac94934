#pragma once
#include <cstdint>
#include <string>

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

}  // namespace tally::collective
