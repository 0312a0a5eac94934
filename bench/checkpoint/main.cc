// Measures the cost of saving for the training; see README.md.
#include <chrono>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "bench/common/clocks.h"
#include "tally/checkpoint.h"
#include "tally/job.h"

namespace tally::bench {
namespace {

constexpr int kBlocks = 10;  // every other one saves
constexpr int kRepeats = 1000;

double ms_on(clockid_t clock) { return 1e3 * seconds_on(clock); }

struct Options {
  std::string folder;
  std::size_t mib = 64;
  int steps = 60;
  int every = 20;
};

// Returns the processor time of all threads but the training one.
double background_cpu_ms() {
  return ms_on(CLOCK_PROCESS_CPUTIME_ID) - ms_on(CLOCK_THREAD_CPUTIME_ID);
}

struct Spent {
  double wall_ms = 0;
  double background_cpu_ms = 0;
};

class Rank {
 public:
  Rank(Job& job, const Options& options, checkpoint::Writer& writer)
      : job_(job),
        options_(options),
        writer_(writer),
        count_(options.mib << 18),
        first_(count_ * static_cast<std::size_t>(job.rank()) /
               static_cast<std::size_t>(job.size())),
        own_(count_ * static_cast<std::size_t>(job.rank() + 1) /
                     static_cast<std::size_t>(job.size()) -
                 first_,
             1.0F),
        work_(std::size_t{1} << 19, 1.0F),
        gradient_(std::size_t{1} << 20, 1.0F) {}

  Result<void> run() {
    Spent without;
    Spent with;
    for (int block = 0; block < kBlocks; ++block)
      TALLY_TRY(run_block(block % 2 == 1, block % 2 == 1 ? with : without));
    TALLY_TRY(compare());
    const double steps = options_.steps * kBlocks / 2.0;
    nlohmann::ordered_json line{{"bench", "checkpoint"}, {"cores", usable_cores()}};
    line["rank"] = job_.rank();
    line["ranks"] = job_.size();
    line["model_mib"] = options_.mib;
    line["saves"] = saves_;
    line["step_ms_without"] = without.wall_ms / steps;
    line["step_ms_with"] = with.wall_ms / steps;
    line["background_cpu_ms"] = with.background_cpu_ms / saves_;
    line["call_cpu_ms"] = call_cpu_ms_ / saves_;
    line["call_ms"] = call_ms_ / saves_;
    line["checked"] = true;
    fmt::print("{}\n", line.dump());
    return {};
  }

 private:
  Result<void> run_block(bool saving, Spent& spent) {
    TALLY_TRY(job_.world().barrier());
    const double wall = ms_on(CLOCK_MONOTONIC);
    const double background = background_cpu_ms();
    for (int i = 0; i < options_.steps; ++i) {
      for (int repeat = 0; repeat < kRepeats; ++repeat)
        for (float& value : work_) value = value * 0.999F + 0.001F;
      TALLY_TRY(job_.world().allreduce(std::span(gradient_), ReduceOp::kAverage));
      if (saving && i % options_.every == 0) TALLY_TRY(save());
    }
    TALLY_TRY(writer_.wait(Deadline::after(std::chrono::minutes(5))));
    spent.wall_ms += ms_on(CLOCK_MONOTONIC) - wall;
    spent.background_cpu_ms += background_cpu_ms() - background;
    return {};
  }

  Result<void> save() {
    const double begin = ms_on(CLOCK_MONOTONIC);
    const double cpu = ms_on(CLOCK_THREAD_CPUTIME_ID);
    own_[0] = static_cast<float>(++saves_);
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(count_)};
    const std::vector<checkpoint::Piece> pieces{
        {.first = first_, .bytes = std::as_bytes(std::span(own_))}};
    TALLY_TRY(writer_.save({.step = static_cast<std::uint64_t>(saves_),
                            .tensors = {{.name = "w", .shape = shape}},
                            .model = pieces,
                            .state_tensors = {{.name = "w/momentum", .shape = shape}},
                            .optimizer = pieces,
                            .state = "{}"}));
    call_ms_ += ms_on(CLOCK_MONOTONIC) - begin;
    call_cpu_ms_ += ms_on(CLOCK_THREAD_CPUTIME_ID) - cpu;
    return {};
  }

  // Compares the last checkpoint with this rank's part.
  Result<void> compare() {
    TALLY_TRY(const auto path, checkpoint::find_latest(options_.folder));
    TALLY_TRY(const auto reader, checkpoint::Reader::open(path));
    std::vector<float> model(own_.size());
    std::vector<float> state(own_.size());
    TALLY_TRY(reader->read("w", first_, std::as_writable_bytes(std::span(model))));
    TALLY_TRY(reader->read_state("w/momentum", first_, std::as_writable_bytes(std::span(state))));
    if (model == own_ && state == own_) return {};
    return Error{.code = ErrorCode::kCorrupt,
                 .message = path.string() + " differs from the saved values"};
  }

  Job& job_;
  const Options& options_;
  checkpoint::Writer& writer_;
  const std::size_t count_;
  const std::size_t first_;
  std::vector<float> own_;
  std::vector<float> work_;
  std::vector<float> gradient_;
  int saves_ = 0;
  double call_ms_ = 0;
  double call_cpu_ms_ = 0;
};

Result<void> run(const Options& options) {
  TALLY_TRY(const auto job, Job::join());
  TALLY_TRY(auto writer,
            checkpoint::Writer::make(job->world(), {.folder = options.folder, .keep = 1}));
  TALLY_TRY(Rank(*job, options, *writer).run());
  writer.reset();
  job->close();
  return {};
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: checkpoint_cost FOLDER MIB STEPS EVERY\n");
    return 2;
  }
  const tally::bench::Options options{.folder = argv[1],
                                      .mib = std::strtoull(argv[2], nullptr, 10),
                                      .steps = std::atoi(argv[3]),
                                      .every = std::atoi(argv[4])};
  if (options.mib == 0 || options.steps < 1 || options.every < 1) {
    fmt::print(stderr, "checkpoint_cost: MIB, STEPS and EVERY are positive\n");
    return 2;
  }
  const auto outcome = tally::bench::run(options);
  if (outcome.has_value()) return 0;
  fmt::print(stderr, "checkpoint_cost: {}\n", outcome.error().message);
  return 1;
}
