#include "bench/allreduce/comparison.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/units.h"
#include "process/interrupt.h"

namespace tally::bench {
namespace {

std::string title(const Contender& contender) {
  return fmt::format("{} {}", contender.name(), contender.transport());
}

class Rounds final {
 public:
  Rounds(std::vector<std::unique_ptr<Contender>> contenders, const ComparisonOptions& options,
         process::Progress& progress)
      : contenders_(std::move(contenders)), options_(options), progress_(progress) {
    for (const auto& contender : contenders_) {
      for (const std::size_t bytes : options_.sizes_bytes) {
        result_.measurements.push_back({.contender = contender->name(),
                                        .transport = contender->transport(),
                                        .version = contender->version(),
                                        .bytes = bytes});
      }
    }
  }

  Comparison run();

 private:
  void check_all();
  void measure_round(int round);
  void measure(std::size_t contender, std::size_t size);
  void fail(std::size_t contender, const std::string& what, const Error& error);

  std::vector<std::unique_ptr<Contender>> contenders_;  // nullptr: failed
  ComparisonOptions options_;
  process::Progress& progress_;
  Comparison result_;
};

Comparison Rounds::run() {
  const SteadyClock clock;
  const Deadline end = clock.after(options_.budget);
  check_all();
  for (int round = 0; round < options_.rounds; ++round) {
    if (process::interrupted() != 0 || (round > 0 && end.passed(clock.now()))) break;
    progress_.stage(fmt::format("round {} of {}", round + 1, options_.rounds));
    measure_round(round);
    if (process::interrupted() == 0) result_.rounds = round + 1;
  }
  return std::move(result_);
}

void Rounds::check_all() {
  progress_.stage("checking results");
  for (std::size_t i = 0; i < contenders_.size(); ++i) {
    for (const std::size_t bytes : options_.sizes_bytes) {
      if (contenders_[i] == nullptr || process::interrupted() != 0) break;
      progress_.now(fmt::format("checking {} {}", title(*contenders_[i]), format_bytes(bytes)));
      const auto outcome = contenders_[i]->check(bytes);
      if (!outcome) fail(i, "check of " + format_bytes(bytes), outcome.error());
    }
  }
}

// Each round begins with another contender, so that no contender always follows the same neighbour.
void Rounds::measure_round(int round) {
  for (std::size_t size = 0; size < options_.sizes_bytes.size(); ++size) {
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
      const std::size_t contender = (i + static_cast<std::size_t>(round)) % contenders_.size();
      if (contenders_[contender] == nullptr || process::interrupted() != 0) continue;
      progress_.now(fmt::format("round {} of {}: {} {}", round + 1, options_.rounds,
                                title(*contenders_[contender]),
                                format_bytes(options_.sizes_bytes[size])));
      measure(contender, size);
    }
  }
}

void Rounds::measure(std::size_t contender, std::size_t size) {
  const std::size_t bytes = options_.sizes_bytes[size];
  auto slice = contenders_[contender]->measure(bytes, options_.slice);
  if (!slice) {
    fail(contender, format_bytes(bytes), slice.error());
    return;
  }
  Measurement& sum = result_.measurements[contender * options_.sizes_bytes.size() + size];
  sum.samples_us.insert(sum.samples_us.end(), slice->samples_us.begin(), slice->samples_us.end());
  sum.calls += slice->calls;
  sum.bytes_sent = slice->bytes_sent;
}

void Rounds::fail(std::size_t contender, const std::string& what, const Error& error) {
  if (process::interrupted() == 0) {
    result_.failures.push_back(
        fmt::format("{}, {}: {}", title(*contenders_[contender]), what, error.message));
    progress_.note("failed: " + result_.failures.back());
  }
  contenders_[contender].reset();
}

}  // namespace

Comparison compare(std::vector<std::unique_ptr<Contender>> contenders,
                   const ComparisonOptions& options, process::Progress& progress) {
  return Rounds(std::move(contenders), options, progress).run();
}

}  // namespace tally::bench
