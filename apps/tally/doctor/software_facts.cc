#include "apps/tally/doctor/software_facts.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "process/child_process.h"

namespace tally::app::doctor {
namespace {

namespace fs = std::filesystem;

constexpr auto kToolTime = std::chrono::seconds(10);

std::string answer_of(const std::vector<std::string>& command) {
  if (!process::find_program(command.front())) return {};
  const auto output = process::output_of(command, SteadyClock().after(kToolTime));
  return output.has_value() ? *output : std::string();
}

std::string first_line_of(const std::string& text) { return text.substr(0, text.find('\n')); }

// Returns the word after `start` in the line that contains it.
std::string word_after(const std::string& text, const std::string& start) {
  const std::size_t place = text.find(start);
  if (place == std::string::npos) return {};
  std::istringstream rest(text.substr(place + start.size()));
  std::string word;
  rest >> word;
  return word;
}

// Open MPI and MPICH both install an mpirun; Debian also gives each a name of its own.
void read_mpi(SoftwareFacts& facts) {
  for (const char* const name : {"mpirun.openmpi", "mpirun.mpich", "mpirun", "mpiexec"}) {
    const std::string version = answer_of({name, "--version"});
    if (facts.open_mpi.empty()) facts.open_mpi = word_after(version, "(Open MPI)");
    if (facts.mpich.empty() && version.find("HYDRA") != std::string::npos)
      facts.mpich = word_after(version, "Version:");
  }
}

// Returns the path that the loader takes for a library whose name begins like this.
std::string library(const std::string& cache, const std::string& name) {
  std::istringstream lines(cache);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t start = line.find_first_not_of(" \t");
    const std::size_t arrow = line.find("=> ");
    if (start == std::string::npos || arrow == std::string::npos) continue;
    if (line.compare(start, name.size(), name) == 0) return line.substr(arrow + 3);
  }
  return {};
}

void read_gpu(SoftwareFacts& facts, const std::string& cache) {
  facts.cuda_library = library(cache, "libcuda.so");
  facts.nccl_library = library(cache, "libnccl.so");
  facts.gpu = first_line_of(
      answer_of({"nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"}));
  if (facts.gpu.empty() && fs::exists("/dev/nvidia0"))
    facts.gpu_trouble = "/dev/nvidia0 exists, but nvidia-smi reports no GPU";
}

// Reads TORCH_VERSION "1.13.1" from a header, or the version file of a Python package.
void read_torch(SoftwareFacts& facts, const std::string& cache) {
  facts.libtorch_path = library(cache, "libtorch_cpu.so");
  if (facts.libtorch_path.empty()) {
    // Folders of pip and conda, which are not in the loader's cache.
    const std::string folder =
        first_line_of(answer_of({"python3", "-c",
                                 "import importlib.util as u; s = u.find_spec('torch'); "
                                 "print(s.submodule_search_locations[0] if s else '')"}));
    const std::string candidate = folder + "/lib/libtorch_cpu.so";
    if (!folder.empty() && fs::exists(candidate)) facts.libtorch_path = candidate;
  }
  if (facts.libtorch_path.empty()) return;
  const fs::path library = facts.libtorch_path;
  for (const fs::path& header :
       {fs::path("/usr/include/torch/csrc/api/include/torch/version.h"),
        library.parent_path().parent_path() / "include/torch/csrc/api/include/torch/version.h"}) {
    std::ifstream file(header);
    for (std::string line; std::getline(file, line) && facts.libtorch.empty();) {
      const std::size_t quote = line.find('"');
      if (line.find("define TORCH_VERSION ") == std::string::npos || quote == std::string::npos)
        continue;
      facts.libtorch = line.substr(quote + 1, line.rfind('"') - quote - 1);
    }
  }
  if (!facts.libtorch.empty()) return;
  const std::size_t suffix = facts.libtorch_path.find(".so.");
  facts.libtorch =
      suffix == std::string::npos ? "of unknown version" : facts.libtorch_path.substr(suffix + 4);
}

}  // namespace

SoftwareFacts read_software() {
  SoftwareFacts facts;
  read_mpi(facts);
  if (process::find_program("srun")) {
    const std::string version = word_after(answer_of({"sinfo", "--version"}), "slurm-wlm");
    facts.slurm = version.empty() ? "installed, and no cluster is configured" : version;
  }
  facts.ssh = process::find_program("ssh").value_or("");
  const std::string loader = process::find_program("ldconfig").value_or("/sbin/ldconfig");
  const std::string cache = answer_of({loader, "-p"});
  read_gpu(facts, cache);
  read_torch(facts, cache);
  const std::string blas = library(cache, "libblas.so.3");
  std::error_code missing;
  if (!blas.empty()) facts.blas = fs::canonical(blas, missing).string();
  return facts;
}

}  // namespace tally::app::doctor
