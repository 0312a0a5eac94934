#include "bench/allreduce/tally_worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "bench/allreduce/values.h"

namespace tally::bench {
namespace {

class TallyWorker final {
 public:
  TallyWorker(Communicator& world, const TallyWorkerOptions& options, int out_fd)
      : world_(world), options_(options), out_fd_(out_fd) {}

  Result<void> serve(std::istream& commands);

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
  // Both return the text of the answer after "done RANK".
  Result<std::string> check(std::size_t bytes);
  Result<std::string> run(std::size_t bytes, int batches, int calls);
  void answer(const std::string& line) const;

  Communicator& world_;
  TallyWorkerOptions options_;
  int out_fd_;
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
  return std::string(" -");
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
  return fmt::format(" {}{}", (after.bytes_sent - before.bytes_sent) / operations, samples);
}

// One line in one write(): lines of different ranks do not mix.
void TallyWorker::answer(const std::string& line) const {
  const std::string text = line + "\n";
  if (::write(out_fd_, text.data(), text.size()) < 0) ::_exit(1);  // the parent is gone
}

Result<void> TallyWorker::serve(std::istream& commands) {
  answer(fmt::format("ready {} tally", world_.rank()));
  for (std::string line; std::getline(commands, line);) {
    std::istringstream words(line);
    std::string name;
    std::size_t bytes = 0;
    int batches = 0;
    int calls = 0;
    words >> name >> bytes >> batches >> calls;
    const auto outcome = name == "check" ? check(bytes) : run(bytes, batches, calls);
    if (!outcome) {
      answer(fmt::format("failed {} {}", world_.rank(), to_string(outcome.error())));
      return outcome.error();
    }
    answer(fmt::format("done {}{}", world_.rank(), *outcome));
  }
  return {};
}

}  // namespace

Result<void> run_tally_worker(const JobOptions& job_options, const TallyWorkerOptions& options) {
  TALLY_TRY(const std::unique_ptr<Job> job, Job::join(job_options));
  const int out_fd = ::open((options.folder + "/out").c_str(), O_WRONLY | O_CLOEXEC);
  std::ifstream commands(fmt::format("{}/in.{}", options.folder, job->rank()));
  if (out_fd < 0 || !commands) {
    return Error{.code = ErrorCode::kSystem, .message = "no pipes in " + options.folder};
  }
  Result<void> outcome = TallyWorker(job->world(), options, out_fd).serve(commands);
  job->close();
  ::close(out_fd);
  return outcome;
}

}  // namespace tally::bench
