#include "apps/tally/doctor/facts.h"

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
#include <thread>

#include "base/clock.h"
#include "base/descriptor.h"
#include "net/socket.h"
#include "process/child_process.h"

namespace tally::app::doctor {

namespace {

namespace fs = std::filesystem;

std::string first_line(const std::string& path) {
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

// Returns the word in brackets: "always [madvise] never".
std::string chosen_in(const std::string& path) {
  const std::string line = first_line(path);
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return line.substr(open + 1, close - open - 1);
}

// Returns the value after "KEY:" in files such as /proc/meminfo and /proc/cpuinfo.
std::string value_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const std::size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  return {};
}

std::uint64_t memory_of(const std::string& key) {
  return std::strtoull(value_of("/proc/meminfo", key).c_str(), nullptr, 10) * 1024;
}

// cgroup v2: "max 100000" or "<quota> <period>" in microseconds.
std::optional<double> quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double allowed = 0;
  double period = 0;
  if (!(file >> allowed >> period) || period <= 0) return std::nullopt;
  return allowed / period;
}

int count_nodes() {
  int nodes = 0;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/node", missing)) {
    const std::string name = entry.path().filename();
    if (name.rfind("node", 0) == 0 && name.find_first_not_of("0123456789", 4) == std::string::npos)
      ++nodes;
  }
  return std::max(1, nodes);
}

void read_processors(MachineFacts& facts) {
  facts.processor = value_of("/proc/cpuinfo", "model name");
  facts.cores_online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t set;
  facts.cores_allowed =
      sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : facts.cores_online;
  facts.cores_quota = quota();
  std::array<double, 1> load{};
  if (getloadavg(load.data(), 1) == 1) facts.load = load[0];
  facts.numa_nodes = count_nodes();
  facts.numa_balancing = number_in("/proc/sys/kernel/numa_balancing").value_or(0) != 0;
  facts.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  facts.clock_source =
      first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  struct timex clock {};
  facts.clock_synchronised = adjtimex(&clock) >= 0 && (clock.status & STA_UNSYNC) == 0;
}

void read_memory(MachineFacts& facts) {
  facts.memory_bytes = memory_of("MemTotal");
  facts.memory_available_bytes = memory_of("MemAvailable");
  facts.memory_limit_bytes = number_in("/sys/fs/cgroup/memory.max");
  const Descriptor memory(memfd_create("tally-doctor", MFD_CLOEXEC));
  facts.memfd_works = memory.open() && ftruncate(memory.descriptor(), 4096) == 0;
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) facts.dev_shm_bytes = shm.f_blocks * shm.f_frsize;
  facts.huge_pages_shared = chosen_in("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  struct rlimit files {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) facts.open_files_limit = files.rlim_cur;
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
