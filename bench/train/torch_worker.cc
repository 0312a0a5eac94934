#include "bench/train/torch_worker.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/errors.h"
#include "bench/common/worker_group.h"
#include "bench/train/train_loop.h"

namespace tally::bench::train {
namespace {

constexpr int kWarmUpSteps = 2;

using Microseconds = std::chrono::duration<double, std::micro>;

std::string check(TrainLoop& loop, int steps) {
  std::string answer;
  for (int i = 0; i < steps; ++i) answer += fmt::format(" {:.9g}", loop.step_with_loss());
  return answer;
}

std::string run(TrainLoop& loop, int steps) {
  for (int i = 0; i < kWarmUpSteps; ++i) loop.step();
  std::string answer;
  for (int i = 0; i < steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    loop.step();
    const Microseconds elapsed = std::chrono::steady_clock::now() - start;
    answer += fmt::format(" {:.1f}", elapsed.count());
  }
  return answer;
}

// The mean time of the steps: a wait for the GPU after each step would lengthen it.
std::string run_on_gpu(TrainLoop& loop, int steps) {
  const int untimed = std::max(kWarmUpSteps, steps / 5);
  for (int i = 0; i < untimed; ++i) loop.step();
  torch::cuda::synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) loop.step();
  torch::cuda::synchronize();
  const Microseconds elapsed = std::chrono::steady_clock::now() - start;
  return fmt::format(" {:.1f}", elapsed.count() / steps);
}

// The device of a rank, which becomes the current one of this thread while an object exists. Ranks
// are assigned the GPUs round-robin.
class RankDevice final {
 public:
  static Result<std::unique_ptr<RankDevice>> of(const Computation& computation, int local_rank) {
    if (!computation.on_gpu()) return std::make_unique<RankDevice>(at::kCPU);
    const auto count = static_cast<int>(torch::cuda::device_count());
    if (count == 0) return invalid("libtorch sees no GPU here");
    return std::make_unique<RankDevice>(
        at::Device(at::kCUDA, static_cast<at::DeviceIndex>(local_rank % count)));
  }
  explicit RankDevice(const at::Device& device) : device_(device) {
    if (device.is_cuda()) current_.emplace(device);
  }
  const at::Device& device() const { return device_; }

 private:
  const at::Device device_;
  std::optional<c10::DeviceGuard> current_;
};

class Worker final {
 public:
  explicit Worker(const TorchWorkerOptions& options) : options_(options) {}

  Result<void> work_plain();
  Result<void> work_in(Job& job);

 private:
  Result<Problem> open_problem() const {
    return Problem::open(options_.problem, options_.computation, device_->device());
  }
  Result<void> serve(Rank rank);
  Result<std::string> answer(const std::string& command, int steps);
  // Forward and backward passes alone, with a model of their own.
  Result<TrainLoop*> passes();

  const TorchWorkerOptions& options_;
  std::unique_ptr<RankDevice> device_;
  std::unique_ptr<TrainLoop> loop_;
  std::unique_ptr<TrainLoop> passes_;
  std::string without_graphs_;  // what the trainer says about it; empty: as asked for
};

Result<void> Worker::work_plain() {
  TALLY_TRY(device_, RankDevice::of(options_.computation, 0));
  TALLY_TRY(const Problem problem, open_problem());
  TALLY_TRY(loop_, make_plain_loop(problem, options_.parts));
  return serve(0);
}

Result<void> Worker::work_in(Job& job) {
  TALLY_TRY(device_, RankDevice::of(options_.computation, job.local_rank()));
  TALLY_TRY(const Problem problem, open_problem());
  TrainerOptions trainer;
  trainer.bucket_bytes = options_.bucket_bytes;
  trainer.in_place = options_.in_place;
  trainer.plan = options_.plan;
  trainer.graphs = options_.graphs;
  trainer.on_event = [this](const std::string& event) {
    fmt::print(stderr, "{}\n", event);
    if (event.find("without graphs") != std::string::npos) without_graphs_ = event;
  };
  TALLY_TRY(loop_, make_tally_loop(problem, job, trainer));
  const Result<void> served = serve(job.rank());
  loop_.reset();  // before the job
  return served;
}

Result<void> Worker::serve(Rank rank) {
  return serve_commands(options_.folder, rank, TORCH_VERSION,
                        [&](std::istream& words) -> Result<std::string> {
                          std::string command;
                          int steps = 0;
                          words >> command >> steps;
                          TALLY_TRY(const std::string values, answer(command, steps));
                          return "-" + (rank == 0 ? values : "");
                        });
}

Result<std::string> Worker::answer(const std::string& command, int steps) {
  if (command == "check") {
    std::string losses = check(*loop_, steps);
    if (!without_graphs_.empty()) return invalid(without_graphs_);
    return losses;
  }
  TrainLoop* timed = loop_.get();
  if (command == "passes") {
    TALLY_TRY(timed, passes());
  }
  return options_.computation.on_gpu() ? run_on_gpu(*timed, steps) : run(*timed, steps);
}

Result<TrainLoop*> Worker::passes() {
  if (!passes_) {
    TALLY_TRY(const Problem problem, open_problem());
    TALLY_TRY(passes_, make_passes(problem));
  }
  return passes_.get();
}

Result<void> work(const TorchWorkerOptions& options,
                  const std::function<const char*(const char*)>& variable) {
  at::set_num_threads(options.threads);
  if (options.computation.tf32) at::globalContext().setFloat32MatmulPrecision(std::string("high"));
  Worker worker(options);
  if (options.contender != "tally") return worker.work_plain();
  TALLY_TRY(const JobOptions job_options, options_from(variable));
  TALLY_TRY(const std::unique_ptr<Job> job, Job::join(job_options));
  TALLY_TRY(worker.work_in(*job));
  job->close();
  return {};
}

}  // namespace

Result<void> run_torch_worker(const TorchWorkerOptions& options,
                              const std::function<const char*(const char*)>& variable) {
  try {
    return work(options, variable);
  } catch (const std::exception& failure) {  // of torch, or of the trainer
    return system_failure(failure.what());
  }
}

}  // namespace tally::bench::train
