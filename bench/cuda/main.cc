// Measures the kernels of adapters/cuda on GPU 0. Ends with 1 if a result is wrong, and with 2
// without a GPU. bench/cuda/README.md explains the measurement.
#include <fmt/format.h>

#include "adapters/cuda/cuda_device.h"
#include "bench/cuda/codec_cases.h"
#include "bench/cuda/measure.h"
#include "bench/cuda/update_cases.h"

namespace tally::bench {

void print_line(const Line& line) {
  const double share = line.bytes / line.seconds / line.copy;
  const char* const goal = !line.has_goal ? "" : share >= kGoal ? "  goal met" : "  goal missed";
  fmt::print("{:<32} {:>9.1f} us {:>8.1f} GB/s {:>6.1f} % of a copy{}\n", line.name,
             line.seconds * 1e6, line.bytes / line.seconds / 1e9, share * 100, goal);
}

namespace {

// Bytes per second, read and written, of a copy from one array of the device to another.
Result<double> copy_bandwidth() {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  DeviceArray<std::byte> from, to;
  TALLY_TRY(from.allocate(kBytes));
  TALLY_TRY(to.allocate(kBytes));
  TALLY_TRY(const double seconds, seconds_of([&] {
              return checked(cudaMemcpyAsync(to.data(), from.data(), kBytes,
                                             cudaMemcpyDeviceToDevice, nullptr),
                             "copying");
            }));
  return 2.0 * kBytes / seconds;
}

int run() {
  const auto gpu = cuda::CudaDevice::open(0);
  if (!gpu) {
    fmt::print(stderr, "error: {}\n", gpu.error().message);
    return 2;
  }
  const Result<double> copy = copy_bandwidth();
  if (!copy) {
    fmt::print(stderr, "error: {}\n", copy.error().message);
    return 1;
  }
  fmt::print("kernels on {}: 64 Mi values; a copy moves {:.0f} GB/s, the goal is {:.0f} % of it\n",
             (*gpu)->name(), *copy / 1e9, kGoal * 100);
  const bool updates = run_update_cases(*copy);
  const bool codecs = run_codec_cases(**gpu, *copy);
  return updates && codecs ? 0 : 1;
}

}  // namespace
}  // namespace tally::bench

int main() { return tally::bench::run(); }
