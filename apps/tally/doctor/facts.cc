#include "apps/tally/doctor/doctor.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/descriptor.h"
#include "net/socket.h"
#include "process/child_process.h"

namespace tally::app::doctor {
namespace {

namespace fs = std::filesystem;

std::string first_line_of_file(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// Returns the word in brackets, which is the current setting: "always [madvise] never".
std::string bracketed_word_in(const std::string& path) {
  const std::string line = first_line_of_file(path);
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return line.substr(open + 1, close - open - 1);
}

// Returns the value after the first "KEY:" in files such as /proc/meminfo and /proc/cpuinfo.
std::string value_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const std::size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  return {};
}

// /proc/meminfo counts in KiB.
std::uint64_t meminfo_bytes(const std::string& key) {
  return std::strtoull(value_of("/proc/meminfo", key).c_str(), nullptr, 10) * 1024;
}

// Returns how many cores the container may use, or no value if there is no limit. The file of
// cgroup v2 has "<quota> <period>" in microseconds, or "max <period>" without a limit.
std::optional<double> container_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period) || period <= 0) return std::nullopt;
  return quota / period;
}

int count_numa_nodes() {
  int nodes = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/node", ignored)) {
    const std::string name = entry.path().filename();
    if (name.rfind("node", 0) == 0 && name.find_first_not_of("0123456789", 4) == std::string::npos)
      ++nodes;
  }
  return std::max(1, nodes);
}

void read_processors(MachineFacts& facts) {
  facts.processor = value_of("/proc/cpuinfo", "model name");
  facts.cores_online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t affinity;
  facts.cores_allowed = sched_getaffinity(0, sizeof(affinity), &affinity) == 0
                            ? CPU_COUNT(&affinity)
                            : facts.cores_online;
  facts.cores_quota = container_cores();
  std::array<double, 1> load{};
  if (getloadavg(load.data(), 1) == 1) facts.load = load[0];
  facts.numa_nodes = count_numa_nodes();
  facts.numa_balancing = number_in("/proc/sys/kernel/numa_balancing").value_or(0) != 0;
  facts.governor = first_line_of_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  facts.clock_source =
      first_line_of_file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  struct timex clock {};
  facts.clock_synchronised = adjtimex(&clock) >= 0 && (clock.status & STA_UNSYNC) == 0;
}

void read_memory(MachineFacts& facts) {
  facts.memory_bytes = meminfo_bytes("MemTotal");
  facts.memory_available_bytes = meminfo_bytes("MemAvailable");
  // Without a limit the file has "max", which is no number.
  facts.memory_limit_bytes = number_in("/sys/fs/cgroup/memory.max");
  const Descriptor memfd(memfd_create("tally-doctor", MFD_CLOEXEC));
  facts.memfd_works = memfd.open() && ftruncate(memfd.descriptor(), 4096) == 0;
  struct statvfs dev_shm {};
  if (statvfs("/dev/shm", &dev_shm) == 0) facts.dev_shm_bytes = dev_shm.f_blocks * dev_shm.f_frsize;
  facts.huge_pages_shared = bracketed_word_in("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  struct rlimit open_files {};
  if (getrlimit(RLIMIT_NOFILE, &open_files) == 0) facts.open_files_limit = open_files.rlim_cur;
  const Descriptor self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  facts.pidfd_works = self.open();
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
}

void read_network(MachineFacts& facts) {
  facts.loopback_works = net::Listener::bind({.host = "127.0.0.1", .port = 0}).has_value();
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  facts.host_name = name.data();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  facts.host_name_resolves = getaddrinfo(name.data(), nullptr, &hints, &found) == 0;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next)
    facts.host_name_is_loopback = facts.host_name_is_loopback || is_loopback(entry->ai_addr);
  if (found != nullptr) freeaddrinfo(found);
  facts.receive_buffer_max_bytes = number_in("/proc/sys/net/core/rmem_max").value_or(0);
}

constexpr auto kToolTimeout = std::chrono::seconds(10);

// Returns the output of a program, or nothing if the program is missing, fails or takes too long.
std::string output_of_tool(const std::vector<std::string>& command) {
  if (!process::find_program(command.front())) return {};
  const auto output = process::output_of(command, Deadline::after(kToolTimeout));
  return output.has_value() ? *output : "";
}

std::string first_line_of_text(const std::string& text) { return text.substr(0, text.find('\n')); }

// Returns the first word after `label` in the text.
std::string word_after(const std::string& text, const std::string& label) {
  const std::size_t position = text.find(label);
  if (position == std::string::npos) return {};
  std::istringstream rest(text.substr(position + label.size()));
  std::string word;
  rest >> word;
  return word;
}

// Open MPI and MPICH both install an mpirun; Debian also installs each under a name of its own. The
// mpirun of MPICH calls itself HYDRA.
void read_mpi(SoftwareFacts& facts) {
  for (const char* const name : {"mpirun.openmpi", "mpirun.mpich", "mpirun", "mpiexec"}) {
    const std::string version = output_of_tool({name, "--version"});
    if (facts.open_mpi.empty()) facts.open_mpi = word_after(version, "(Open MPI)");
    if (facts.mpich.empty() && version.find("HYDRA") != std::string::npos)
      facts.mpich = word_after(version, "Version:");
  }
}

// Returns the path of the first library whose name begins with `name`. `loader_cache` is the output
// of `ldconfig -p`, with lines such as "libcuda.so.1 (libc6,x86-64) => /usr/lib/libcuda.so.1".
std::string library_path(const std::string& loader_cache, const std::string& name) {
  std::istringstream lines(loader_cache);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t start = line.find_first_not_of(" \t");
    const std::size_t arrow = line.find("=> ");
    if (start == std::string::npos || arrow == std::string::npos) continue;
    if (line.compare(start, name.size(), name) == 0) return line.substr(arrow + 3);
  }
  return {};
}

void read_gpu(SoftwareFacts& facts, const std::string& loader_cache) {
  facts.cuda_library = library_path(loader_cache, "libcuda.so");
  facts.nccl_library = library_path(loader_cache, "libnccl.so");
  facts.gpu = first_line_of_text(
      output_of_tool({"nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"}));
  if (facts.gpu.empty() && fs::exists("/dev/nvidia0"))
    facts.gpu_trouble = "/dev/nvidia0 exists, but nvidia-smi reports no GPU";
}

// Finds libtorch in the loader's cache, or else in the Python package. The version is TORCH_VERSION
// in a header ("1.13.1"), or else the end of the library's name (libtorch_cpu.so.1.13).
void read_torch(SoftwareFacts& facts, const std::string& loader_cache) {
  facts.libtorch_path = library_path(loader_cache, "libtorch_cpu.so");
  if (facts.libtorch_path.empty()) {
    // The loader's cache does not list the folders of pip and conda.
    const std::string folder =
        first_line_of_text(output_of_tool({"python3", "-c",
                                           "import importlib.util as u; s = u.find_spec('torch'); "
                                           "print(s.submodule_search_locations[0] if s else '')"}));
    const std::string candidate = folder + "/lib/libtorch_cpu.so";
    if (!folder.empty() && fs::exists(candidate)) facts.libtorch_path = candidate;
  }
  if (facts.libtorch_path.empty()) return;
  const fs::path libtorch = facts.libtorch_path;
  for (const fs::path& header :
       {fs::path("/usr/include/torch/csrc/api/include/torch/version.h"),
        libtorch.parent_path().parent_path() / "include/torch/csrc/api/include/torch/version.h"}) {
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

MachineFacts read_machine() {
  MachineFacts facts;
  struct utsname system {};
  if (uname(&system) == 0) facts.kernel = system.release;
  read_processors(facts);
  read_memory(facts);
  read_network(facts);
  return facts;
}

SoftwareFacts read_software() {
  SoftwareFacts facts;
  read_mpi(facts);
  if (process::find_program("srun")) {
    const std::string version = word_after(output_of_tool({"sinfo", "--version"}), "slurm-wlm");
    facts.slurm = version.empty() ? "installed, and no cluster is configured" : version;
  }
  facts.ssh = process::find_program("ssh").value_or("");
  const std::string ldconfig = process::find_program("ldconfig").value_or("/sbin/ldconfig");
  const std::string loader_cache = output_of_tool({ldconfig, "-p"});
  read_gpu(facts, loader_cache);
  read_torch(facts, loader_cache);
  // libblas.so.3 may be a link to one of several installed libraries.
  const std::string blas = library_path(loader_cache, "libblas.so.3");
  std::error_code ignored;
  if (!blas.empty()) facts.blas = fs::canonical(blas, ignored).string();
  return facts;
}

}  // namespace tally::app::doctor
