// A lost worker d has reported its position for the last time at the meeting before. The workers
// that are left meet at their common position:
//
//   report of d        meeting without d
//   |  ... d dies ...  |
//   +------------------+-----------------------> position
//   | share of d: lost | shared by the others
//
// Gradients of d between its last report and its death have been applied, but no worker knows how
// many. They are counted as lost: the number is an upper bound, and the reported samples are a
// lower one. Both together are the samples up to the position.
#include "apps/train/data_division.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/check.h"

namespace tally::app {
namespace {

// Values of a worker in the sum of all workers.
enum Field : std::size_t { kPresent, kPosition, kSamples, kFields };

// Samples from the beginning of the first epoch on.
std::uint64_t linear(const data::Position& position, std::uint64_t size) {
  return position.epoch * size + position.samples;
}

data::Position position_at(std::uint64_t offset, std::uint64_t size) {
  return {.epoch = offset / size, .samples = offset % size};
}

}  // namespace

data::Position common_position(const std::vector<data::Position>& positions, std::uint64_t size) {
  TALLY_CHECK(!positions.empty());
  // The mean of the differences to the least position, so that no sum overflows.
  const std::uint64_t least = linear(*std::min_element(positions.begin(), positions.end()), size);
  std::uint64_t more = 0;
  for (const data::Position& position : positions) more += linear(position, size) - least;
  return position_at(least + more / positions.size(), size);
}

DataDivision::DataDivision(const DivisionOptions& options)
    : options_(options),
      workers_(static_cast<std::size_t>(options.workers)),
      living_(static_cast<std::size_t>(options.workers)) {
  TALLY_CHECK(options.size > 0);
  std::iota(living_.begin(), living_.end(), 0);
}

Result<void> DataDivision::seek(const std::vector<data::Position>& saved, std::uint64_t step) {
  data::Order checked = order();
  for (const data::Position& position : saved) TALLY_TRY(checked.seek(position));
  const data::Position common = common_position(saved, options_.size);
  for (std::size_t rank = 0; rank < workers_.size(); ++rank)
    workers_[rank] = {.position = saved.size() == workers_.size() ? saved[rank] : common,
                      .step = step};
  return {};
}

data::Order DataDivision::order_of(Rank rank, const data::Position& position) const {
  const auto place = std::find(living_.begin(), living_.end(), rank) - living_.begin();
  const bool has_all = options_.strategy == data::Strategy::kReplicate;
  data::Order order({.strategy = options_.strategy,
                     .size = options_.size,
                     .seed = options_.seed,
                     .batch = options_.batch,
                     .step = options_.step_has_all_workers
                                 ? options_.batch * static_cast<std::uint64_t>(options_.workers)
                                 : 0,
                     .parts = parts_,
                     .rank = has_all ? rank : static_cast<Rank>(place),
                     .workers = has_all ? options_.workers : static_cast<int>(living_.size())});
  TALLY_CHECK(order.seek(position).has_value());
  return order;
}

data::Order DataDivision::order() const {
  return order_of(options_.rank, of(options_.rank).position);
}

void DataDivision::divide(const data::Position& position, std::vector<std::uint64_t> parts) {
  TALLY_CHECK(options_.step_has_all_workers && options_.strategy != data::Strategy::kReplicate);
  TALLY_CHECK(parts.size() == living_.size());
  parts_ = std::move(parts);
  for (const Rank rank : living_) of(rank).position = position;
}

std::vector<std::uint64_t> DataDivision::parts() const {
  if (!parts_.empty()) return parts_;
  const std::uint64_t step = options_.batch * static_cast<std::uint64_t>(options_.workers);
  std::vector<std::uint64_t> parts(living_.size(), step / living_.size());
  for (std::size_t i = 0; i < step % living_.size(); ++i) ++parts[i];
  return parts;
}

std::vector<double> DataDivision::report(const data::Position& position,
                                         std::uint64_t samples) const {
  std::vector<double> values(report_size(options_.workers), 0.0);
  double* const own = &values[kFields * static_cast<std::size_t>(options_.rank)];
  own[kPresent] = 1;
  own[kPosition] = static_cast<double>(linear(position, options_.size));
  own[kSamples] = static_cast<double>(samples);
  return values;
}

bool DataDivision::take(std::span<const double> sums, std::uint64_t step) {
  TALLY_CHECK(sums.size() == report_size(options_.workers));
  std::vector<Rank> present;
  for (const Rank rank : living_) {
    const double* const report = &sums[kFields * static_cast<std::size_t>(rank)];
    if (report[kPresent] <= 0) continue;
    present.push_back(rank);
    of(rank) = {
        .position = position_at(static_cast<std::uint64_t>(report[kPosition]), options_.size),
        .samples = static_cast<std::uint64_t>(report[kSamples]),
        .step = step};
  }
  TALLY_CHECK(!present.empty());
  std::vector<data::Position> positions;
  for (const Rank rank : present) positions.push_back(of(rank).position);
  const data::Position common = common_position(positions, options_.size);
  std::vector<Rank> gone;
  std::set_difference(living_.begin(), living_.end(), present.begin(), present.end(),
                      std::back_inserter(gone));
  for (const Rank rank : gone)
    lost_.push_back({.rank = rank, .after_step = of(rank).step, .until_step = step});
  // In a division without a worker, the worker has no share: what it lost is counted once.
  const bool has_all = options_.strategy == data::Strategy::kReplicate;
  for (LostWorker& lost : lost_) {
    Worker& worker = of(lost.rank);
    if (!has_all && std::find(gone.begin(), gone.end(), lost.rank) == gone.end()) continue;
    lost.samples += order_of(lost.rank, worker.position).samples_until(common);
    worker.position = std::max(worker.position, common);
    lost.until_step = step;
  }
  living_ = std::move(present);
  if (!gone.empty()) parts_.clear();
  if (!gone.empty() && !has_all)
    for (const Rank rank : living_) of(rank).position = common;
  return !gone.empty();
}

int DataDivision::place() const {
  return static_cast<int>(std::find(living_.begin(), living_.end(), options_.rank) -
                          living_.begin());
}

std::vector<data::Position> DataDivision::positions() const {
  std::vector<data::Position> positions;
  for (const Rank rank : living_) positions.push_back(of(rank).position);
  return positions;
}

std::uint64_t DataDivision::samples() const {
  std::uint64_t samples = 0;
  for (const Worker& worker : workers_) samples += worker.samples;
  return samples;
}

}  // namespace tally::app
