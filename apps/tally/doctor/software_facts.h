#pragma once
#include <string>
#include <vector>

namespace tally::app::doctor {

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
