#include "recipes/word2vec/host_average.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/clock.h"

namespace tally::word2vec {
namespace {

#define TALLY_HOGWILD __attribute__((no_sanitize("thread")))

// Sends weight * value.
TALLY_HOGWILD void take_part(std::span<const float> values, float weight,
                             std::vector<float>& before, std::vector<float>& sum) {
  before.resize(values.size());
  sum.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    before[i] = values[i];
    sum[i] = weight * before[i];
  }
}

}  // namespace

TALLY_HOGWILD void add_difference(std::span<float> values, std::span<const float> sum,
                                  std::span<const float> before) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += sum[i] - before[i];
}

HostAverage::HostAverage(Communicator& lane, HostTables& tables,
                         const collective::Topology& topology, const AveragingSchedule& schedule,
                         std::uint64_t own_words)
    : lane_(lane), tables_(tables), schedule_(schedule), own_words_(own_words) {
  const auto part = static_cast<std::size_t>(topology.local);
  const auto parts = static_cast<std::size_t>(topology.locals());
  first_row_ = tables.shape().rows * part / parts;
  last_row_ = tables.shape().rows * (part + 1) / parts;
  last_round_ = SteadyClock().now();
}

Result<bool> HostAverage::advance(std::uint64_t done, bool wants_to_stop) {
  while (!schedule_.is_over()) {
    const double due = schedule_.next() * static_cast<double>(own_words_);
    if (schedule_.next() < 1 ? static_cast<double>(done) < due : done < own_words_) return false;
    TALLY_TRY(const bool stops, hold_round(wants_to_stop));
    if (stops) return true;
  }
  return true;
}

Result<bool> HostAverage::hold_round(bool wants_to_stop) {
  const TimePoint now = SteadyClock().now();
  const std::uint64_t words = tables_.progress().words;
  const auto own = static_cast<double>(words - words_before_);
  // Words of the hosts, seconds, and the number of workers that want to stop.
  std::array<double, 3> facts = {own, std::chrono::duration<double>(now - last_round_).count(),
                                 wants_to_stop ? 1.0 : 0.0};
  TALLY_TRY(lane_.allreduce(std::span<double>(facts)));
  const double weight = facts[0] > 0 ? own / facts[0] : 1.0 / lane_.size();
  const std::size_t half = tables_.values().size() / 2;
  const std::size_t begin = first_row_ * tables_.stride();
  const std::size_t count = (last_row_ - first_row_) * tables_.stride();
  TALLY_TRY(average(tables_.values().subspan(begin, count), weight));
  TALLY_TRY(average(tables_.values().subspan(half + begin, count), weight));
  words_before_ = words;
  last_round_ = now;
  ++rounds_;
  schedule_.advance(facts[1] / lane_.size());
  return facts[2] > 0;
}

Result<void> HostAverage::average(std::span<float> part, double weight) {
  if (part.empty()) return {};
  take_part(part, static_cast<float>(weight), before_, sum_);
  TALLY_TRY(lane_.allreduce(std::span<float>(sum_)));
  add_difference(part, sum_, before_);
  return {};
}

}  // namespace tally::word2vec
