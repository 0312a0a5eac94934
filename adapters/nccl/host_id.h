#pragma once
#include <string>

namespace tally::nccl {

// What NCCL takes for the host of the calling rank: NCCL_HOSTID, or the running system. Over the
// emulation each thread is a host.
std::string host_id();

}  // namespace tally::nccl
