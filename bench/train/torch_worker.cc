#include "bench/train/torch_worker.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/errors.h"
#include "bench/common/worker_group.h"
#include "bench/train/train_loop.h"

namespace tally::bench::train {
namespace {

constexpr int kWarmUpSteps = 2;

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
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    answer += fmt::format(" {:.1f}", elapsed.count());
  }
  return answer;
}

Result<void> serve(TrainLoop& loop, Rank rank, const std::string& folder) {
  return serve_commands(
      folder, rank, TORCH_VERSION, [&](std::istream& words) -> Result<std::string> {
        std::string name;
        int steps = 0;
        words >> name >> steps;
        const std::string values = name == "check" ? check(loop, steps) : run(loop, steps);
        return "-" + (rank == 0 ? values : "");
      });
}

Result<void> work(const TorchWorkerOptions& options,
                  const std::function<const char*(const char*)>& variable) {
  at::set_num_threads(options.threads);
  TALLY_TRY(Problem problem, Problem::open(options.problem));
  if (options.contender != "tally") {
    TALLY_TRY(const std::unique_ptr<TrainLoop> loop,
              make_plain_loop(std::move(problem), options.parts));
    return serve(*loop, 0, options.folder);
  }
  TALLY_TRY(const JobOptions job_options, options_from(variable));
  TALLY_TRY(const std::unique_ptr<Job> job, Job::join(job_options));
  {
    TrainerOptions trainer;
    trainer.bucket_bytes = options.bucket_bytes;
    trainer.in_place = options.in_place;
    trainer.plan = options.plan;
    trainer.on_event = [](const std::string& event) { fmt::print(stderr, "{}\n", event); };
    TALLY_TRY(const std::unique_ptr<TrainLoop> loop,
              make_tally_loop(std::move(problem), *job, trainer));
    TALLY_TRY(serve(*loop, job->rank(), options.folder));
  }
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
