#include "collective/engine_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <sstream>
#include <string_view>

#include "base/errors.h"

namespace tally::collective {
namespace {

const char* name_of(MpiKind kind) { return kind == MpiKind::kOpenMpi ? "openmpi" : "mpich"; }

const char* packages_of(MpiKind kind) {
  return kind == MpiKind::kOpenMpi ? "Open MPI (Debian: openmpi-bin, to build libopenmpi-dev)"
                                   : "MPICH (Debian: mpich, to build libmpich-dev)";
}

std::string file_of(MpiKind kind) { return fmt::format("libtally_mpi_{}.so", name_of(kind)); }

// The MPI that the program is linked with, or has loaded with global symbols.
std::optional<MpiKind> loaded_mpi() {
  if (dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") != nullptr) return MpiKind::kOpenMpi;
  if (dlsym(RTLD_DEFAULT, "MPI_Init") != nullptr) return MpiKind::kMpich;
  return std::nullopt;
}

std::string own_program() {
  std::array<char, PATH_MAX> path{};
  const ssize_t bytes = readlink("/proc/self/exe", path.data(), path.size() - 1);
  return bytes > 0 ? std::string(path.data(), static_cast<std::size_t>(bytes)) : std::string();
}

// The components of Open MPI look up the symbols of libmpi among the global ones.
void* load(MpiKind kind, const std::string& path) {
  return dlopen(path.c_str(), RTLD_NOW | (kind == MpiKind::kOpenMpi ? RTLD_GLOBAL : RTLD_LOCAL));
}

Result<std::unique_ptr<Job>> join_through(void* plugin, const std::string& path,
                                          const JobOptions& options) {
  const auto entry = reinterpret_cast<EngineEntry>(dlsym(plugin, kEngineEntryName));
  if (entry == nullptr) return invalid("{} is no plugin of Tally's", path);
  const EngineAbi abi;
  Job* job = nullptr;
  Error error;
  switch (entry(&abi, &options, &job, &error)) {
    case kEngineJoined:
      return std::unique_ptr<Job>(job);
    case kEngineFailed:
      return error;
    default:
      return invalid("{} was built from another version of Tally than this program", path);
  }
}

}  // namespace

Result<std::vector<MpiKind>> mpi_candidates(const Variables& variable,
                                            std::optional<MpiKind> loaded) {
  std::optional<MpiKind> wanted = loaded;
  if (const char* const forced = variable("TALLY_MPI")) {
    const std::string_view name = forced;
    if (name != "openmpi" && name != "mpich")
      return invalid("TALLY_MPI={} is none of openmpi, mpich", name);
    wanted = name == "openmpi" ? MpiKind::kOpenMpi : MpiKind::kMpich;
    if (loaded && *loaded != *wanted)
      return invalid("TALLY_MPI={}, but the program itself uses {}", name, name_of(*loaded));
  }
  if (wanted) return std::vector<MpiKind>{*wanted};
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"})
    if (variable(name) != nullptr) return std::vector<MpiKind>{MpiKind::kOpenMpi};
  for (const char* const name : {"PMI_RANK", "PMI_FD", "MPI_LOCALRANKID"})
    if (variable(name) != nullptr) return std::vector<MpiKind>{MpiKind::kMpich};
  return std::vector<MpiKind>{MpiKind::kOpenMpi, MpiKind::kMpich};
}

std::vector<std::string> plugin_folders(const Variables& variable, const std::string& program) {
  if (const char* const folder = variable("TALLY_PLUGIN_DIR")) return {folder};
  std::vector<std::string> folders;
  const std::size_t slash = program.rfind('/');
  if (slash != std::string::npos) {
    folders.push_back(program.substr(0, slash));
    folders.push_back(program.substr(0, slash) + "/lib");
    folders.push_back(program.substr(0, slash) + "/" + TALLY_PLUGIN_FOLDER_BESIDE);
  }
  std::istringstream known(TALLY_PLUGIN_FOLDERS);
  for (std::string folder; std::getline(known, folder, ':');) folders.push_back(folder);
  return folders;
}

Result<std::unique_ptr<Job>> join_by_plugin(const JobOptions& options, const Variables& variable) {
  TALLY_TRY(const std::vector<MpiKind> kinds, mpi_candidates(variable, loaded_mpi()));
  const std::vector<std::string> folders = plugin_folders(variable, own_program());
  std::vector<std::string> needed;
  std::string trouble;
  for (const MpiKind kind : kinds) {
    for (const std::string& folder : folders) {
      const std::string path = folder + "/" + file_of(kind);
      if (access(path.c_str(), F_OK) != 0) continue;
      if (void* const plugin = load(kind, path)) return join_through(plugin, path, options);
      trouble += fmt::format("; {}", dlerror());
    }
    needed.push_back(fmt::format("{} with {}", file_of(kind), packages_of(kind)));
  }
  return invalid("engine=mpi needs {}; looked in {}{}", fmt::join(needed, ", or "),
                 fmt::join(folders, ", "), trouble);
}

}  // namespace tally::collective
