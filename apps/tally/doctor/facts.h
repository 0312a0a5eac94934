#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tally::app::doctor {

// Facts about this machine. An empty text or no value: unknown.
struct MachineFacts {
  std::string kernel;
  std::string processor;
  int cores_online = 1;
  int cores_allowed = 1;              // affinity mask
  std::optional<double> cores_quota;  // limit of the container
  double load = 0;                    // runnable processes, average over one minute
  int numa_nodes = 1;
  bool numa_balancing = false;
  std::string governor;  // of the frequency of processor 0
  std::string clock_source;
  bool clock_synchronised = true;

  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  std::optional<std::uint64_t> memory_limit_bytes;  // limit of the container
  bool memfd_works = true;
  std::optional<std::uint64_t> dev_shm_bytes;
  std::string huge_pages_shared;  // shmem_enabled: always, advise, never, ...
  std::uint64_t open_files_limit = 0;
  bool pidfd_works = true;

  bool loopback_works = true;
  std::string host_name;
  bool host_name_resolves = true;
  bool host_name_is_loopback = false;  // other hosts cannot reach the address of the host name
  std::uint64_t receive_buffer_max_bytes = 0;
};

MachineFacts read_machine();

// Installed software. An empty text: not found.
struct SoftwareFacts {
  std::string open_mpi;  // versions
  std::string mpich;
  std::string slurm;
  std::string ssh;           // path
  std::string gpu;           // "NVIDIA H200, 580.65.06" of the first GPU
  std::string gpu_trouble;   // devices exist, but the driver reports an error
  std::string cuda_library;  // libcuda
  std::string nccl_library;
  std::string libtorch;  // version
  std::string libtorch_path;
  std::string blas;  // the library that libblas.so.3 refers to

  friend bool operator==(const SoftwareFacts&, const SoftwareFacts&) = default;
};

// Runs the programs to ask for their versions; bounded in time.
SoftwareFacts read_software();

}  // namespace tally::app::doctor
