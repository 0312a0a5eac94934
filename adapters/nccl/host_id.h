#pragma once
#include <string>

namespace tally::nccl {

// The host of the calling rank, as NCCL sees it: NCCL_HOSTID, or the running system. Over the
// emulation each thread is a host.
std::string host_id();

}  // namespace tally::nccl
