// An accumulator in the smallest example. Two ranks, here threads of one process, have the
// gradients [1, 2] and [3, 4] of one sample each. The sum is [4, 6] and the mean [2, 3]; with
// learning rate 0.1 the parameters change by -[0.2, 0.3], and the accumulator is zero again.
//
//   build/release/examples/01_accumulator

#include <cstdio>
#include <span>
#include <thread>
#include <vector>

#include "tally/accumulator.h"
#include "tally/job.h"

namespace {

constexpr float kRate = 0.1F;

// The program of one rank. All ranks do the same; rank 0 also prints.
tally::Result<void> run_rank(tally::Job& job) {
  const bool tells = job.rank() == 0;
  const std::vector<float> gradient =
      job.rank() == 0 ? std::vector<float>{1, 2} : std::vector<float>{3, 4};
  std::vector<float> parameters = {0, 0};

  // The accumulator does the same inside: an all-reduce.
  std::vector<float> sum = gradient;
  TALLY_TRY(job.world().allreduce(std::span(sum)));
  if (tells) std::printf("sum [%g, %g]\n", sum[0], sum[1]);

  TALLY_TRY(const auto accumulator,
            tally::Accumulator::make(job.world(), {.size = parameters.size()}));
  TALLY_TRY(
      accumulator->add({.gradient = gradient, .samples = 1, .version = accumulator->version()}));
  TALLY_TRY(accumulator->complete([&](std::span<const float> average) {
    if (tells) std::printf("average [%g, %g]\n", average[0], average[1]);
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= kRate * average[i];
  }));
  if (tells) {
    std::printf("parameters [%g, %g] at version %d\n", parameters[0], parameters[1],
                static_cast<int>(accumulator->version()));
  }

  // There is no gradient to apply: every rank gets the same error.
  const auto empty = accumulator->complete([](std::span<const float>) {});
  if (tells && !empty) std::printf("zero again: %s\n", to_string(empty.error()).c_str());
  return {};
}

}  // namespace

int main() {
  auto jobs = tally::Job::in_process(2);
  if (!jobs) {
    std::fprintf(stderr, "%s\n", to_string(jobs.error()).c_str());
    return 1;
  }
  std::vector<tally::Result<void>> outcomes(jobs->size());
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < jobs->size(); ++rank) {
    ranks.emplace_back([&, rank] { outcomes[rank] = run_rank(*(*jobs)[rank]); });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const auto& outcome : outcomes) {
    if (outcome) continue;
    std::fprintf(stderr, "%s\n", to_string(outcome.error()).c_str());
    return 1;
  }
  return 0;
}
