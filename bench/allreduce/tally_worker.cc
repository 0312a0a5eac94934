#include "bench/allreduce/launches.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "bench/allreduce/values.h"

namespace tally::bench {
namespace {

class TallyWorker final {
 public:
  TallyWorker(Communicator& world, const TallyWorkerOptions& options)
      : world_(world), options_(options) {}

  // Returns the text of the answer after "done RANK ".
  Result<std::string> execute(std::istream& words) {
    std::string name;
    std::size_t bytes = 0;
    int batches = 0;
    int calls = 0;
    words >> name >> bytes >> batches >> calls;
    return name == "check" ? check(bytes) : run(bytes, batches, calls);
  }

 private:
  struct Buffer {
    SharedBuffer shared;
    std::vector<float> plain;
    std::span<float> data;
  };

  Result<std::span<float>> buffer_of(std::size_t bytes);
  Result<void> allreduce(std::span<float> data) {
    return world_.allreduce(data, ReduceOp::kSum, {.algorithm = options_.algorithm});
  }
  Result<std::string> check(std::size_t bytes);
  Result<std::string> run(std::size_t bytes, int batches, int calls);

  Communicator& world_;
  TallyWorkerOptions options_;
  std::map<std::size_t, Buffer> buffers_;
};

Result<std::span<float>> TallyWorker::buffer_of(std::size_t bytes) {
  Buffer& buffer = buffers_[bytes];
  if (buffer.data.empty() && options_.shared_buffers) {
    TALLY_TRY(buffer.shared, world_.allocate(bytes));
    buffer.data = buffer.shared.as<float>();
  } else if (buffer.data.empty()) {
    buffer.plain.resize(bytes / sizeof(float));
    buffer.data = buffer.plain;
  }
  return buffer.data.first(bytes / sizeof(float));
}

Result<std::string> TallyWorker::check(std::size_t bytes) {
  TALLY_TRY(const std::span<float> data, buffer_of(bytes));
  fill_for_check(data, world_.rank());
  TALLY_TRY(allreduce(data));
  TALLY_TRY(compare_with_sum(data, world_.size()));
  return std::string("-");
}

Result<std::string> TallyWorker::run(std::size_t bytes, int batches, int calls) {
  TALLY_TRY(const std::span<float> data, buffer_of(bytes));
  const Traffic before = world_.traffic();
  const int limit = calls_before_overflow(world_.size());
  int used = limit;
  std::string samples;
  for (int batch = 0; batch < batches; ++batch) {
    if (used + calls > limit) {
      fill_for_timing(data);
      for (int i = 0; i < kWarmUpCalls; ++i) TALLY_TRY(allreduce(data));
      used = kWarmUpCalls;
    }
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) TALLY_TRY(allreduce(data));
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    used += calls;
    samples += fmt::format(" {:.3f}", elapsed.count() / calls);
  }
  if (world_.rank() != 0) samples.clear();
  const Traffic after = world_.traffic();
  const auto operations = std::max<std::uint64_t>(1, after.operations - before.operations);
  return fmt::format("{}{}", (after.bytes_sent - before.bytes_sent) / operations, samples);
}

}  // namespace

Result<void> run_tally_worker(const JobOptions& job_options, const TallyWorkerOptions& options) {
  TALLY_TRY(const std::unique_ptr<Job> job, Job::join(job_options));
  TallyWorker worker(job->world(), options);
  const auto outcome = serve_commands(options.folder, job->rank(), "tally",
                                      [&](std::istream& words) { return worker.execute(words); });
  job->close();
  return outcome;
}

}  // namespace tally::bench
