#include "adapters/nccl/host_id.h"

#include <cstdlib>
#include <fstream>

namespace tally::nccl {

std::string host_id() {
  if (const char* const set = std::getenv("NCCL_HOSTID")) return set;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

}  // namespace tally::nccl
