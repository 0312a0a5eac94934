// One rank of a test; the environment says which one. The arguments are a command:
//
//   call OPERATION COUNT TYPE   one operation
//   loop OPERATION COUNT        operations until one fails
//   sums COUNT                  COUNT all-reduces, with a check of each result
//   sums-until FILE             the same until rank 0 sees that FILE exists
//   paced COUNT MILLISECONDS    the same as sums, with a pause before each
//   reform COUNT SECONDS        all-reduces until a rank is lost; the others form a new group
//                               within SECONDS and do `sums COUNT`
//   part                        on a line from stdin the last rank leaves; the others work on among
//                               themselves, and then call an operation that needs all ranks
//   time COUNT ROUNDS           times all-reduces of COUNT float32: "took MICROSECONDS" of the best
//   compute                     the last rank computes until it reads a line, while the others wait
//                               for it in an all-reduce
//   compute-for MILLISECONDS    the same for a fixed time
//   steps MILLISECONDS          counted steps of computing and an all-reduce, until rank 0 reads a
//                               line
//   wait                        an all-reduce that the last rank joins when it reads a line
//
// It prints its progress to stdout, a line each: started, joined, ready, sums, reformed, done. For
// an error it prints "outcome CODE PEER MILLISECONDS MESSAGE", with the time of steady_clock.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "tally/job.h"

namespace tally::process {
namespace {

template <typename... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  fmt::print(format, std::forward<Values>(values)...);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

void await_line() {
  std::string line;
  std::getline(std::cin, line);
}

Result<Operation> operation_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Operation::kReceive); ++i)
    if (to_string(static_cast<Operation>(i)) == name) return static_cast<Operation>(i);
  return Error{.code = ErrorCode::kInvalid, .message = "no operation " + name};
}

Result<DataType> type_named(const std::string& name) {
  for (int i = 0; i < kDataTypeCount; ++i)
    if (to_string(static_cast<DataType>(i)) == name) return static_cast<DataType>(i);
  return Error{.code = ErrorCode::kInvalid, .message = "no type " + name};
}

// One operation, with memory that is large enough for any of them.
class Call {
 public:
  Call(Communicator& group, Operation operation, std::size_t count, DataType type)
      : group_(group),
        input_(count * static_cast<std::size_t>(group.size()) * size_of(type)),
        output_(input_.size()),
        request_{.operation = operation,
                 .input = input_.data(),
                 .output = output_.data(),
                 .count = count,
                 .type = type} {}

  Result<void> run() { return group_.run(request_); }

 private:
  Communicator& group_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
  Request request_;
};

// An all-reduce whose result shows that each member of the group took part exactly once.
Result<void> checked_sum(Communicator& group, int round) {
  std::vector<float> data(5000, static_cast<float>((group.rank() + 1) * (round + 1)));
  float expected = 0;
  for (Rank rank = 0; rank < group.size(); ++rank)
    expected += static_cast<float>((rank + 1) * (round + 1));
  TALLY_TRY(group.allreduce(std::span(data)));
  for (const float value : data) {
    if (value == expected) continue;
    return Error{
        .code = ErrorCode::kInvalid,
        .message = fmt::format("sum {} in round {} where {} is right", value, round, expected)};
  }
  return {};
}

Result<void> checked_sums(Communicator& group, int count,
                          std::chrono::milliseconds pause = std::chrono::milliseconds(0)) {
  for (int round = 0; round < count; ++round) {
    std::this_thread::sleep_for(pause);
    TALLY_TRY(checked_sum(group, round));
  }
  say("sums {} right", count);
  return {};
}

// All ranks end in the same round, because rank 0 tells them in an all-reduce.
Result<bool> agreed(Communicator& group, bool wish_of_rank_0) {
  std::vector<float> wish(1000, group.rank() == 0 && wish_of_rank_0 ? 1.0F : 0.0F);
  TALLY_TRY(group.allreduce(std::span(wish)));
  return wish.front() > 0;
}

Result<void> sums_until(Communicator& group, const std::string& file) {
  say("ready");
  for (int round = 0;; ++round) {
    TALLY_TRY(checked_sum(group, round % 100));
    TALLY_TRY(const bool ends, agreed(group, std::filesystem::exists(file)));
    if (ends) break;
  }
  say("sums right");
  return {};
}

Result<void> loop(Communicator& group, Operation operation, std::size_t count) {
  Call call(group, operation, count, DataType::kFloat32);
  TALLY_TRY(call.run());
  say("ready");
  for (;;) TALLY_TRY(call.run());
}

Result<void> reform(Job& job, int count, int seconds) {
  const Result<void> outcome = loop(job.world(), Operation::kAllreduce, 5000);
  if (outcome.error().code != ErrorCode::kPeerLost) return outcome;
  TALLY_TRY(job.reform({outcome.error().peer}, Deadline::after(std::chrono::seconds(seconds))));
  say("reformed {} {} {}", job.rank(), job.size(), job.generation());
  return checked_sums(job.world(), count);
}

Result<void> part(Job& job) {
  const bool leaves = job.rank() == job.size() - 1;
  TALLY_TRY(const auto rest,
            job.world().split(leaves ? -1 : 0, 0, Deadline::after(std::chrono::minutes(2))));
  say("ready");
  await_line();
  if (leaves) return {};
  TALLY_TRY(checked_sums(*rest, 100));
  await_line();
  return job.world().barrier();
}

Result<void> wait_for_last(Job& job) {
  TALLY_TRY(job.world().barrier());
  say("ready");
  if (job.rank() == job.size() - 1) await_line();
  return checked_sums(job.world(), 1);
}

// The first round warms up and does not count.
Result<void> time_allreduce(Communicator& group, std::size_t count, int rounds) {
  TALLY_TRY(const SharedBuffer memory, group.allocate(count * sizeof(float)));
  std::vector<double> took;
  for (int round = 0; round <= rounds; ++round) {
    for (float& value : memory.as<float>()) value = 1;
    TALLY_TRY(group.barrier());
    const auto begin = std::chrono::steady_clock::now();
    TALLY_TRY(group.allreduce(memory.as<float>()));
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    if (round > 0) took.push_back(time.count());
    for (const float value : memory.as<float>()) {
      if (value != static_cast<float>(group.size()))
        return Error{.code = ErrorCode::kInvalid, .message = "a wrong sum"};
    }
  }
  say("took {}", *std::min_element(took.begin(), took.end()));
  return {};
}

void compute_for(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) asm volatile("" ::: "memory");
}

bool has_input() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) > 0;
}

// A stack that is captured during the computation must show this name.
[[gnu::noinline]] void compute_until_told() {
  while (!has_input()) compute_for(std::chrono::milliseconds(5));
}

template <typename Computation>
Result<void> compute(Job& job, const Computation& computation) {
  TALLY_TRY(job.world().barrier());
  say("ready");
  if (job.rank() == job.size() - 1) computation();
  return checked_sums(job.world(), 1);
}

Result<void> steps(Job& job, std::chrono::milliseconds time) {
  for (bool first = true;; first = false) {
    compute_for(time);
    TALLY_TRY(const bool ends, agreed(job.world(), job.rank() == 0 && has_input()));
    job.count_step(10);
    if (first) say("ready");
    if (ends) return {};
  }
}

Result<void> obey(Job& job, const std::vector<std::string>& words) {
  const auto number = [&words](std::size_t index) { return std::atoi(words.at(index).c_str()); };
  if (words[0] == "call") {
    TALLY_TRY(const Operation operation, operation_named(words.at(1)));
    TALLY_TRY(const DataType type, type_named(words.at(3)));
    return Call(job.world(), operation, static_cast<std::size_t>(number(2)), type).run();
  }
  if (words[0] == "loop") {
    TALLY_TRY(const Operation operation, operation_named(words.at(1)));
    return loop(job.world(), operation, static_cast<std::size_t>(number(2)));
  }
  if (words[0] == "sums") return checked_sums(job.world(), number(1));
  if (words[0] == "sums-until") return sums_until(job.world(), words.at(1));
  if (words[0] == "paced") {
    say("ready");
    return checked_sums(job.world(), number(1), std::chrono::milliseconds(number(2)));
  }
  if (words[0] == "time")
    return time_allreduce(job.world(), static_cast<std::size_t>(number(1)), number(2));
  if (words[0] == "reform") return reform(job, number(1), number(2));
  if (words[0] == "part") return part(job);
  if (words[0] == "compute") return compute(job, compute_until_told);
  if (words[0] == "compute-for")
    return compute(job, [&] { compute_for(std::chrono::milliseconds(number(1))); });
  if (words[0] == "steps") return steps(job, std::chrono::milliseconds(number(1)));
  if (words[0] == "wait") return wait_for_last(job);
  return Error{.code = ErrorCode::kInvalid, .message = "no command " + words[0]};
}

Result<void> work(const std::vector<std::string>& words) {
  say("started");
  TALLY_TRY(const std::unique_ptr<Job> job, Job::join());
  say("joined {} {} {}", job->rank(), job->size(), job->generation());
  const Result<void> outcome = obey(*job, words);
  if (!outcome.has_value()) return outcome;
  job->close();
  say("done");
  return outcome;
}

}  // namespace
}  // namespace tally::process

// Differs from the exit codes of sanitizers.
constexpr int kErrorExitCode = 3;

int main(int argc, char** argv) {
  using namespace tally::process;
  const auto outcome = work({argv + 1, argv + argc});
  if (outcome.has_value()) return 0;
  const tally::Error& error = outcome.error();
  say("outcome {} {} {} {}", to_string(error.code), error.peer,
      std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::steady_clock::now().time_since_epoch())
          .count(),
      error.message);
  return kErrorExitCode;
}
