#include "bench/allreduce/comparison.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/units.h"

namespace tally::bench {
namespace {

class AllreduceRounds final {
 public:
  AllreduceRounds(std::vector<std::unique_ptr<Contender>> contenders,
                  const ComparisonOptions& options, Failures failures, process::Progress& progress)
      : contenders_(std::move(contenders)),
        options_(options),
        progress_(progress),
        result_{.failures = std::move(failures)} {
    for (const auto& contender : contenders_)
      for (const std::size_t bytes : options_.sizes_bytes)
        result_.measurements.push_back({.contender = contender->facts(), .bytes = bytes});
  }

  Comparison run() {
    const SteadyClock clock;
    const Deadline end = clock.after(options_.budget);
    progress_.stage("checking results");
    for (std::size_t i = 0; i < contenders_.size(); ++i)
      for (std::size_t size = 0; size < options_.sizes_bytes.size(); ++size)
        attempt(i, size, "check of ", [](Contender& contender, Measurement& measured) {
          return contender.check(measured.bytes);
        });
    for (int round = 0; round < options_.rounds; ++round) {
      if (process::interrupted() != 0 || (round > 0 && end.passed(clock.now()))) break;
      progress_.stage(fmt::format("round {} of {}", round + 1, options_.rounds));
      for (std::size_t size = 0; size < options_.sizes_bytes.size(); ++size)
        take_turns(round, contenders_.size(), [&](std::size_t i) { measure(i, size); });
      if (process::interrupted() == 0) result_.rounds = round + 1;
    }
    return std::move(result_);
  }

 private:
  // Calls `act` for a contender that has not failed. A failure ends the contender.
  template <typename Act>
  void attempt(std::size_t contender, std::size_t size, const char* what, Act act) {
    if (contenders_[contender] == nullptr || process::interrupted() != 0) return;
    Measurement& measured = result_.measurements[contender * options_.sizes_bytes.size() + size];
    const std::string title =
        fmt::format("{} {}, {}{}", measured.contender.name, measured.contender.transport, what,
                    format_bytes(measured.bytes));
    progress_.now(title);
    const auto outcome = act(*contenders_[contender], measured);
    if (outcome) return;
    result_.failures.add(title, outcome.error(), progress_);
    contenders_[contender].reset();
  }

  void measure(std::size_t index, std::size_t size) {
    attempt(index, size, "", [&](Contender& contender, Measurement& measured) -> Result<void> {
      TALLY_TRY(const Answer slice, contender.measure(measured.bytes, options_.slice));
      Answer& sum = measured.sum;
      sum.samples_us.insert(sum.samples_us.end(), slice.samples_us.begin(), slice.samples_us.end());
      sum.calls += slice.calls;
      sum.bytes_sent = slice.bytes_sent;
      return {};
    });
  }

  std::vector<std::unique_ptr<Contender>> contenders_;  // nullptr: failed
  const ComparisonOptions& options_;
  process::Progress& progress_;
  Comparison result_;
};

}  // namespace

Comparison compare(std::vector<std::unique_ptr<Contender>> contenders,
                   const ComparisonOptions& options, Failures failures,
                   process::Progress& progress) {
  return AllreduceRounds(std::move(contenders), options, std::move(failures), progress).run();
}

}  // namespace tally::bench
