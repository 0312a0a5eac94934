// One rank that saves checkpoints; the environment says which one.
//
//   checkpoint_worker FOLDER FIRST_STEP LAST_STEP ROWS
//
// It prints "whole STEP" when the checkpoint of that step is complete, and "done" at the end.
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "process/checkpoint_content.h"
#include "tally/checkpoint.h"
#include "tally/job.h"

namespace tally::process {
namespace {

using checkpoint::Content;
using checkpoint::Piece;
using checkpoint::TensorInfo;

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

// This rank's equal part of every tensor.
class Parts {
 public:
  Parts(const std::vector<TensorInfo>& tensors, Rank rank, int ranks, std::uint64_t step) {
    for (std::size_t index = 0; index < tensors.size(); ++index) {
      const std::uint64_t count = elements_of(tensors[index]);
      const std::uint64_t first =
          count * static_cast<std::uint64_t>(rank) / static_cast<std::uint64_t>(ranks);
      const std::uint64_t end =
          count * static_cast<std::uint64_t>(rank + 1) / static_cast<std::uint64_t>(ranks);
      std::vector<float>& values = memory_.emplace_back();
      for (std::uint64_t i = first; i < end; ++i) values.push_back(value_at(step, index, i));
      firsts_.push_back(first);
    }
  }
  std::vector<Piece> pieces() const {
    std::vector<Piece> pieces;
    for (std::size_t index = 0; index < memory_.size(); ++index)
      pieces.push_back({.tensor = index,
                        .first = firsts_[index],
                        .bytes = std::as_bytes(std::span(memory_[index]))});
    return pieces;
  }

 private:
  std::vector<std::vector<float>> memory_;
  std::vector<std::uint64_t> firsts_;
};

Result<void> work(const std::vector<std::string>& words) {
  const std::uint64_t first = std::stoull(words.at(1));
  const std::uint64_t last = std::stoull(words.at(2));
  const std::int64_t rows = std::stoll(words.at(3));
  TALLY_TRY(const std::unique_ptr<Job> job, Job::join());
  TALLY_TRY(auto writer,
            checkpoint::Writer::make(job->world(), {.folder = words.at(0), .keep = 2}));
  for (std::uint64_t step = first; step <= last; ++step) {
    Content content{.step = step,
                    .tensors = model_tensors(rows),
                    .state_tensors = optimizer_tensors(rows),
                    .state = fmt::format(R"({{"plan":"home=group update=bsp",)"
                                         R"("position":{{"epoch":0,"samples":{}}}}})",
                                         step * 64),
                    .rank_state = fmt::format("rank {}", job->rank())};
    const Parts model(content.tensors, job->rank(), job->size(), step);
    const Parts optimizer(content.state_tensors, job->rank(), job->size(), step);
    content.model = model.pieces();
    content.optimizer = optimizer.pieces();
    TALLY_TRY(writer->save(content));
    // save() has waited for the previous checkpoint.
    if (step > first) say(fmt::format("whole {}", step - 1));
  }
  TALLY_TRY(writer->wait(Deadline::after(std::chrono::minutes(2))));
  say(fmt::format("whole {}", last));
  writer.reset();
  job->close();
  say("done");
  return {};
}

}  // namespace
}  // namespace tally::process

// Differs from the exit codes of sanitizers.
constexpr int kErrorExitCode = 3;

int main(int argc, char** argv) {
  if (argc != 5) return kErrorExitCode;
  const auto outcome = tally::process::work({argv + 1, argv + argc});
  if (outcome.has_value()) return 0;
  fmt::print(stderr, "{}\n", tally::to_string(outcome.error()));
  return kErrorExitCode;
}
