// The same program under every launcher. Each rank prints its number; then all ranks sum their
// numbers, one by one and as a vector, and rank 0 prints the result: the same line everywhere.
//
//   build/release/examples/05_hello_job                            alone: a job of one rank
//   tally run -n 4 -- build/release/examples/05_hello_job
//   mpirun -n 4 build/release/examples/05_hello_job                Open MPI and MPICH
//   srun -n 4 build/release/examples/05_hello_job
//   torchrun --no_python --nproc_per_node 4 build/release/examples/05_hello_job
//
// On several hosts the commands are the same, with the launcher's options for hosts; see
// docs/running.md.

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "tally/job.h"

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

// Returns 1 + 2 + ... + n, the sum of one number per rank.
tally::Result<double> sum_of_numbers(tally::Job& job) {
  std::vector<double> number = {job.rank() + 1.0};
  TALLY_TRY(job.world().allreduce(std::span(number)));
  return number[0];
}

// Rank r contributes r+1 times [0, 1, 2, ...]. True if every element of the sum is right.
tally::Result<bool> vector_is_right(tally::Job& job, double sum) {
  std::vector<float> vector(10000);
  for (std::size_t i = 0; i < vector.size(); ++i)
    vector[i] = static_cast<float>(i % 100) * static_cast<float>(job.rank() + 1);
  TALLY_TRY(job.world().allreduce(std::span(vector)));
  for (std::size_t i = 0; i < vector.size(); ++i)
    if (vector[i] != static_cast<float>(sum) * static_cast<float>(i % 100)) return false;
  return true;
}

tally::Result<bool> run() {
  // Job::join() without arguments does the same; this program also prints the launcher's name.
  TALLY_TRY(const tally::JobOptions options,
            tally::options_from([](const char* name) { return std::getenv(name); }));
  TALLY_TRY(const auto job, tally::Job::join(options));
  std::printf("rank %d of %d (local %d of %d) on %s, launcher: %s\n", job->rank(), job->size(),
              job->local_rank(), job->local_size(), host_name().c_str(), options.launcher.c_str());
  TALLY_TRY(const double sum, sum_of_numbers(*job));
  TALLY_TRY(const bool right, vector_is_right(*job, sum));
  if (!right || sum != job->size() * (job->size() + 1) / 2.0) return false;
  if (job->rank() == 0) std::printf("sum over %d ranks: %g\n", job->size(), sum);
  return true;
}

}  // namespace

int main() {
  const auto right = run();
  if (!right) std::fprintf(stderr, "%s\n", to_string(right.error()).c_str());
  if (right && !*right) std::fprintf(stderr, "the sum is wrong\n");
  return right && *right ? 0 : 1;
}
