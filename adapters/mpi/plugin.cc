#include "adapters/mpi/mpi_job.h"
#include "collective/engine_abi.h"

// The plugin's only symbol (plugin.map): engine_abi.h has its contract.
extern "C" int tally_engine_join(const tally::collective::EngineAbi* abi,
                                 const tally::JobOptions* options, tally::Job** job,
                                 tally::Error* error) {
  using namespace tally::collective;
  if (!(*abi == EngineAbi{})) return kEngineOtherAbi;
  auto joined = tally::mpi::join(*options);
  if (!joined.has_value()) {
    *error = std::move(joined).error();
    return kEngineFailed;
  }
  *job = std::move(joined).value().release();
  return kEngineJoined;
}
