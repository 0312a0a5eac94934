#pragma once
#include <string>
#include <vector>

namespace tally::app::doctor {

// What else is installed. An empty text: not found.
struct SoftwareFacts {
  std::string open_mpi;  // versions
  std::string mpich;
  std::string slurm;
  std::string ssh;           // path
  std::string gpu;           // "NVIDIA H200, 580.65.06" of the first one
  std::string gpu_trouble;   // devices are there, and the driver's answer is no
  std::string cuda_library;  // libcuda
  std::string nccl_library;
  std::string libtorch;  // version
  std::string libtorch_path;
  std::string blas;  // the library behind libblas.so.3

  friend bool operator==(const SoftwareFacts&, const SoftwareFacts&) = default;
};

// Asks the programs themselves; bounded in time.
SoftwareFacts read_software();

}  // namespace tally::app::doctor
