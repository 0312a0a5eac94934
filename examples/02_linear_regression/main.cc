// A training loop of its own: fits y = 2 a - 3 b + 0.5 by gradient descent. The ranks have
// different samples and different numbers of them; after every step all ranks have the same
// weights.
//
//   build/release/examples/02_linear_regression
//
// starts three ranks as threads of this process. If RANK is set the program is that rank of a job
// instead, so that any launcher that sets RANK and WORLD_SIZE can start it:
//
//   for r in 0 1; do RANK=$r WORLD_SIZE=2 build/release/examples/02_linear_regression & done; wait

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <thread>
#include <vector>

#include "tally/accumulator.h"
#include "tally/job.h"

namespace {

constexpr int kSteps = 200;
constexpr float kRate = 0.5F;
constexpr int kSamples = 600;
constexpr int kThreads = 3;

struct Sample {
  float a;
  float b;
  float y;
};

// Rank r of n takes r + 1 shares: shards of unequal size that cover every sample once.
std::vector<Sample> shard_of(int rank, int size) {
  const int shares = size * (size + 1) / 2;
  const int begin = kSamples * (rank * (rank + 1) / 2) / shares;
  const int end = kSamples * ((rank + 1) * (rank + 2) / 2) / shares;
  std::vector<Sample> samples;
  for (int i = begin; i < end; ++i) {
    const float a = std::sin(static_cast<float>(i));
    const float b = std::cos(static_cast<float>(3 * i));
    samples.push_back({a, b, 2 * a - 3 * b + 0.5F});
  }
  return samples;
}

using Weights = std::array<float, 3>;

// Mean over the samples of the gradient of half the squared error.
Weights gradient_at(const Weights& weights, const std::vector<Sample>& samples) {
  Weights sum{};
  if (samples.empty()) return sum;  // counts as zero samples
  for (const Sample& sample : samples) {
    const float error = weights[0] * sample.a + weights[1] * sample.b + weights[2] - sample.y;
    sum[0] += error * sample.a;
    sum[1] += error * sample.b;
    sum[2] += error;
  }
  for (float& value : sum) value /= static_cast<float>(samples.size());
  return sum;
}

tally::Result<void> train(tally::Job& job) {
  const std::vector<Sample> samples = shard_of(job.rank(), job.size());
  Weights weights{};
  TALLY_TRY(const auto accumulator,
            tally::Accumulator::make(job.world(), {.size = weights.size()}));
  for (int step = 0; step < kSteps; ++step) {
    const Weights gradient = gradient_at(weights, samples);
    TALLY_TRY(accumulator->add(
        {.gradient = gradient, .samples = samples.size(), .version = accumulator->version()}));
    TALLY_TRY(accumulator->complete([&weights](std::span<const float> average) {
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= kRate * average[i];
    }));
    job.count_step(samples.size());  // for `tally status`
  }
  if (job.rank() == 0) {
    std::printf("learned y = %.3f a - %.3f b + %.3f in %d steps on %d ranks\n", weights[0],
                -weights[1], weights[2], kSteps, job.size());
  }
  job.close();
  return {};
}

tally::Result<void> run_as_rank() {
  TALLY_TRY(const auto job, tally::Job::join());
  return train(*job);
}

tally::Result<void> run_as_threads() {
  TALLY_TRY(const auto jobs, tally::Job::in_process(kThreads));
  std::vector<tally::Result<void>> outcomes(jobs.size());
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < jobs.size(); ++rank) {
    ranks.emplace_back([&, rank] { outcomes[rank] = train(*jobs[rank]); });
  }
  for (std::thread& rank : ranks) rank.join();
  for (auto& outcome : outcomes) TALLY_TRY(std::move(outcome));
  return {};
}

}  // namespace

int main() {
  const bool launched = std::getenv("RANK") != nullptr;
  const auto outcome = launched ? run_as_rank() : run_as_threads();
  if (outcome) return 0;
  std::fprintf(stderr, "%s\n", to_string(outcome.error()).c_str());
  return 1;
}
