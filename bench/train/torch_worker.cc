#include "bench/train/torch_worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/descriptor.h"
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

// One line in one write(): lines of different ranks do not mix.
Result<void> answer(int out, const std::string& line) {
  const std::string text = line + "\n";
  if (::write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size())) return {};
  return Error{.code = ErrorCode::kSystem, .message = "the parent process is gone"};
}

Result<void> serve(TrainLoop& loop, Rank rank, const std::string& folder) {
  const Descriptor out(::open((folder + "/out").c_str(), O_WRONLY | O_CLOEXEC));
  std::ifstream commands(fmt::format("{}/in.{}", folder, rank));
  if (!out.open() || !commands)
    return Error{.code = ErrorCode::kSystem, .message = "no pipes in " + folder};
  TALLY_TRY(answer(out.descriptor(), fmt::format("ready {} {}", rank, TORCH_VERSION)));
  for (std::string line; std::getline(commands, line);) {
    std::istringstream words(line);
    std::string name;
    int steps = 0;
    words >> name >> steps;
    const std::string values = name == "check" ? check(loop, steps) : run(loop, steps);
    TALLY_TRY(answer(out.descriptor(), fmt::format("done {} -{}", rank, rank == 0 ? values : "")));
  }
  return {};
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
    TALLY_TRY(const std::unique_ptr<TrainLoop> loop,
              make_tally_loop(std::move(problem), *job,
                              {.bucket_bytes = options.bucket_bytes, .plan = options.plan}));
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
    return Error{.code = ErrorCode::kSystem, .message = failure.what()};
  }
}

}  // namespace tally::bench::train
