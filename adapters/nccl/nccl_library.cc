#include "adapters/nccl/nccl_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "base/errors.h"

namespace tally::nccl {
namespace {

constexpr const char* kFile = "libnccl.so.2";

// Null if there is none; dlerror() then tells why. A libtorch that contains NCCL shows its
// functions among the global symbols.
void* open_library(const std::string& file) {
  if (!file.empty()) return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (void* const loaded = dlopen(kFile, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return loaded;
  if (dlsym(RTLD_DEFAULT, "ncclCommInitRankConfig") != nullptr) return dlopen(nullptr, RTLD_NOW);
  return dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
}

Error not_found(const std::string& file) {
  const char* const why = dlerror();
  const std::string reason = why != nullptr ? why : "no such file";
  if (!file.empty())
    return invalid("TALLY_NCCL={}: cannot be loaded ({}); name a libnccl.so.2, or unset it", file,
                   reason);
  return invalid(
      "NCCL was not found ({}): install NVIDIA's libnccl2, use a torch wheel with CUDA, or name "
      "the file in TALLY_NCCL",
      reason);
}

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

Result<Nccl> load_nccl(const std::string& file) {
  void* const library = open_library(file);
  if (library == nullptr) return not_found(file);
  Nccl nccl;
  const char* missing = nullptr;
  const auto resolve = [library, &missing](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr && missing == nullptr) missing = name;
  };
  resolve(nccl.get_version, "ncclGetVersion");
  if (missing == nullptr) (void)nccl.get_version(&nccl.version);
  if (missing == nullptr && nccl.version < kOldestNccl)
    return invalid(
        "NCCL {} is too old, Tally needs {}: install a newer libnccl2, or name its file in "
        "TALLY_NCCL",
        version_text(nccl.version), version_text(kOldestNccl));
  resolve(nccl.get_unique_id, "ncclGetUniqueId");
  resolve(nccl.get_error_string, "ncclGetErrorString");
  resolve(nccl.get_last_error, "ncclGetLastError");
  resolve(nccl.comm_init_rank_config, "ncclCommInitRankConfig");
  resolve(nccl.comm_get_async_error, "ncclCommGetAsyncError");
  resolve(nccl.comm_abort, "ncclCommAbort");
  resolve(nccl.group_start, "ncclGroupStart");
  resolve(nccl.group_end, "ncclGroupEnd");
  resolve(nccl.all_reduce, "ncclAllReduce");
  resolve(nccl.reduce_scatter, "ncclReduceScatter");
  resolve(nccl.all_gather, "ncclAllGather");
  resolve(nccl.broadcast, "ncclBroadcast");
  resolve(nccl.reduce, "ncclReduce");
  resolve(nccl.send, "ncclSend");
  resolve(nccl.receive, "ncclRecv");
  if (missing != nullptr)
    return invalid("{} has no {}: name a libnccl.so.2 in TALLY_NCCL", file.empty() ? kFile : file,
                   missing);
  return nccl;
}

Result<const Nccl*> nccl_library() {
  static const Result<Nccl> loaded = [] {
    const char* const file = std::getenv("TALLY_NCCL");
    return load_nccl(file != nullptr ? file : "");
  }();
  if (!loaded.has_value()) return loaded.error();
  return &loaded.value();
}

}  // namespace tally::nccl
