#pragma once
#include <nccl.h>

#include <string>

#include "tally/error.h"

namespace tally::nccl {

// The oldest NCCL that is used, in NCCL's own numbers.
inline constexpr int kOldestNccl = NCCL_VERSION(2, 18, 0);

// The functions of libnccl.so.2, which is loaded at run time: programs start without it.
struct Nccl {
  int version = 0;  // 22803 is 2.28.3
  decltype(&::ncclGetVersion) get_version = nullptr;
  decltype(&::ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&::ncclGetErrorString) get_error_string = nullptr;
  decltype(&::ncclGetLastError) get_last_error = nullptr;
  decltype(&::ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&::ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&::ncclCommAbort) comm_abort = nullptr;
  decltype(&::ncclGroupStart) group_start = nullptr;
  decltype(&::ncclGroupEnd) group_end = nullptr;
  decltype(&::ncclAllReduce) all_reduce = nullptr;
  decltype(&::ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&::ncclAllGather) all_gather = nullptr;
  decltype(&::ncclBroadcast) broadcast = nullptr;
  decltype(&::ncclReduce) reduce = nullptr;
  decltype(&::ncclSend) send = nullptr;
  decltype(&::ncclRecv) receive = nullptr;
};

// The NCCL of this process: the file that the variable TALLY_NCCL names, else the one that is
// loaded already, such as libtorch's, else the system's. The first call loads it, and it stays
// loaded. kInvalid, with what to do, if there is none or if it is too old. Threads: safe.
Result<const Nccl*> nccl_library();

// The NCCL of one file, as nccl_library() checks it. Empty: the loaded one, else the system's.
Result<Nccl> load_nccl(const std::string& file);

}  // namespace tally::nccl
