// One rank of a job that sums on a GPU, with failures: nccl_worker SCENARIO.
//
//   make       makes the sums
//   die        rank 1 dies in the middle of a sum; the others form a new group and sum again
//   stay-away  the last rank does not come to a sum until it reads a line
//   ipc        sums by CUDA IPC; rank 0 frees the total before the others read it again
//
// It prints its progress to stdout, a line each, and for an error "outcome CODE PEER MILLISECONDS
// MESSAGE", with the time of steady_clock.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "adapters/cuda/ipc_sum.h"
#include "adapters/nccl/nccl_sum.h"
#include "tally/job.h"

namespace tally::nccl {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr std::size_t kCount = 1'000'000;

template <typename... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  fmt::print(format, std::forward<Values>(values)...);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

void tell(const Error& error) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  say("outcome {} {} {} {}", to_string(error.code), error.peer,
      std::chrono::duration_cast<milliseconds>(now).count(), error.message);
}

// Operations that others must end have no other end.
Deadline never() { return Deadline::after(hours(1)); }

Result<std::unique_ptr<exchange::DeviceSum>> make_sum(Job& job, cuda::CudaDevice& device) {
  return nccl_sum(job.world(), device, {{.count = kCount}, {.count = kCount}}, never());
}

Result<void> start(cuda::CudaDevice& device, exchange::DeviceSum& sum, std::size_t array,
                   float value) {
  const std::vector<float> values(kCount, value);
  TALLY_TRY(device.write(sum.own(array), std::as_bytes(std::span(values))));
  return sum.start(array);
}

Result<void> check_total(cuda::CudaDevice& device, const std::byte* at, int expected) {
  std::vector<float> totals(kCount);
  TALLY_TRY(device.read(std::as_writable_bytes(std::span(totals)), at));
  for (const float total : totals)
    if (total != static_cast<float>(expected))
      return Error{.code = ErrorCode::kCorrupt,
                   .message = fmt::format("{} where {} is right", total, expected)};
  return {};
}

constexpr int kSteps = 3;
int expected_total(const Job& job, int step) { return job.size() * (job.size() + 1) / 2 * step; }

// Sums of all ranks, with a check of each result.
Result<void> checked_sums(Job& job, cuda::CudaDevice& device, exchange::DeviceSum& sum) {
  for (int step = 1; step <= kSteps; ++step) {
    for (const std::size_t array : {0, 1})
      TALLY_TRY(start(device, sum, array, static_cast<float>((job.rank() + 1) * step)));
    TALLY_TRY(sum.finish(never()));
    for (const std::size_t array : {0, 1})
      TALLY_TRY(check_total(device, sum.total(array), expected_total(job, step)));
    TALLY_TRY(job.world().barrier({.by = never()}));
  }
  say("sums of {} right", job.size());
  return {};
}

// The survivors wait for a sum that rank 1 has not begun.
Result<void> die(Job& job, cuda::CudaDevice& device) {
  TALLY_TRY(auto sum, make_sum(job, device));
  TALLY_TRY(checked_sums(job, device, *sum));
  TALLY_TRY(start(device, *sum, 0, 1));
  if (job.rank() == 1) std::raise(SIGKILL);
  TALLY_TRY(start(device, *sum, 1, 1));
  const Result<void> finished = sum->finish(never());
  if (finished.has_value()) return finished;
  tell(finished.error());
  sum.reset();
  TALLY_TRY(job.reform({finished.error().peer}, never()));
  TALLY_TRY(sum, make_sum(job, device));
  return checked_sums(job, device, *sum);
}

Result<void> stay_away(Job& job, cuda::CudaDevice& device) {
  TALLY_TRY(const auto sum, make_sum(job, device));
  TALLY_TRY(checked_sums(job, device, *sum));
  if (job.rank() + 1 == job.size()) {
    std::string line;
    std::getline(std::cin, line);
    return {};
  }
  TALLY_TRY(start(device, *sum, 0, 1));
  return sum->finish(Deadline::after(milliseconds(500)));
}

// On a stream that does not wait for the default stream.
Result<void> ipc(Job& job, cuda::CudaDevice& device) {
  cudaStream_t stream = nullptr;
  TALLY_TRY(
      device.check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream"));
  device.use_stream(stream);
  TALLY_TRY(auto sum,
            cuda::ipc_sum(job.world(), device, {{.count = kCount}, {.count = kCount}}, never()));
  TALLY_TRY(checked_sums(job, device, *sum));
  if (job.rank() == 0) sum.reset();
  TALLY_TRY(job.world().barrier({.by = never()}));
  if (sum) TALLY_TRY(check_total(device, sum->total(0), expected_total(job, kSteps)));
  say("total right");
  TALLY_TRY(job.world().barrier({.by = never()}));
  sum.reset();
  device.use_stream(nullptr);
  TALLY_TRY(device.wait(never()));
  return device.check(cudaStreamDestroy(stream), "destroying a stream");
}

Result<void> run(const std::string& scenario) {
  TALLY_TRY(const auto job, Job::join());
  TALLY_TRY(const auto device, cuda::CudaDevice::open(0));
  if (scenario == "die") return die(*job, *device);
  if (scenario == "stay-away") return stay_away(*job, *device);
  if (scenario == "ipc") return ipc(*job, *device);
  TALLY_TRY(const auto sum, make_sum(*job, *device));
  say("made");
  return {};
}

}  // namespace
}  // namespace tally::nccl

int main(int argc, char** argv) {
  const auto outcome = tally::nccl::run(argc > 1 ? argv[1] : "");
  if (!outcome.has_value()) tally::nccl::tell(outcome.error());
  return outcome.has_value() ? 0 : 3;
}
