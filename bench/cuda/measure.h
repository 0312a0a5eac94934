#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/errors.h"
#include "bench/common/statistics.h"
#include "tally/error.h"

namespace tally::bench {

inline Result<void> checked(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return {};
  return system_failure("{}: {}", what, cudaGetErrorString(status));
}

// An array of the current CUDA device.
template <typename T>
class DeviceArray final {
 public:
  DeviceArray() = default;
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(at_); }

  // Zeroed; once per object.
  Result<void> allocate(std::size_t count) {
    TALLY_TRY(checked(cudaMalloc(reinterpret_cast<void**>(&at_), count * sizeof(T)), "cudaMalloc"));
    return checked(cudaMemset(at_, 0, count * sizeof(T)), "cudaMemset");
  }
  T* data() const { return at_; }
  Result<std::vector<T>> read(std::size_t count) const {
    std::vector<T> values(count);
    TALLY_TRY(checked(cudaMemcpy(values.data(), at_, count * sizeof(T), cudaMemcpyDeviceToHost),
                      "reading"));
    return values;
  }

 private:
  T* at_ = nullptr;
};

// The median time of a call that enqueues work on the default stream.
template <typename Call>
Result<double> seconds_of(const Call& call) {
  constexpr int kWarmUps = 3, kRounds = 15;
  cudaEvent_t begin, end;
  TALLY_TRY(checked(cudaEventCreate(&begin), "cudaEventCreate"));
  TALLY_TRY(checked(cudaEventCreate(&end), "cudaEventCreate"));
  std::vector<double> seconds;
  for (int round = 0; round < kWarmUps + kRounds; ++round) {
    TALLY_TRY(checked(cudaEventRecord(begin, nullptr), "cudaEventRecord"));
    TALLY_TRY(call());
    TALLY_TRY(checked(cudaEventRecord(end, nullptr), "cudaEventRecord"));
    TALLY_TRY(checked(cudaEventSynchronize(end), "cudaEventSynchronize"));
    float milliseconds = 0;
    TALLY_TRY(checked(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime"));
    if (round >= kWarmUps) seconds.push_back(milliseconds / 1e3);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return median(seconds);
}

// One result.
struct Line {
  std::string name;
  double bytes = 0;  // that must be read and written
  double seconds = 0;
  double copy = 0;  // bytes per second of a device copy, read and written
  bool has_goal = false;
};
inline constexpr double kGoal = 0.8;  // share of a copy's bandwidth
void print_line(const Line& line);

}  // namespace tally::bench
