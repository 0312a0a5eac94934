// One step takes the next per_step() positions of the epoch; the last step may have fewer.
// part_of() gives each rank its part of the step:
//
//   kReplicate   the whole step
//   kStream      batch r of the step, of per_step / workers positions, rounded up; the last batches
//                may be short or empty
//   kPartition   count / workers positions, and one more for the first count % workers ranks
//   with parts   the positions from count * before / per_step on, where `before` are the parts of
//                the ranks before, up to where the next rank begins
//
// permutation_of() maps positions to sample indices; without it the position is the index.
#include "data/order.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "data/permutation.h"

namespace tally::data {
namespace {

// Positions [first, first + count) in the order of an epoch.
struct Range {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// Samples of a whole step.
std::uint64_t per_step(const OrderOptions& options) {
  if (options.strategy == Strategy::kReplicate) return options.batch;
  if (!options.parts.empty())
    return std::accumulate(options.parts.begin(), options.parts.end(), std::uint64_t{0});
  if (options.step > 0) return options.step;
  return options.batch * static_cast<std::uint64_t>(options.workers);
}

// The part of options.rank in the samples of one step, by OrderOptions::parts.
Range given_part_of(const OrderOptions& options, Range step) {
  const std::uint64_t all = per_step(options);
  const auto own = options.parts.begin() + options.rank;
  const std::uint64_t before = std::accumulate(options.parts.begin(), own, std::uint64_t{0});
  // Below 2^64: a step and a part of it have less than 2^32 samples each.
  const std::uint64_t first = step.count * before / all;
  return {step.first + first, step.count * (before + *own) / all - first};
}

// The part of options.rank in the samples of one step.
Range part_of(const OrderOptions& options, Range step) {
  if (options.strategy != Strategy::kReplicate && !options.parts.empty())
    return given_part_of(options, step);
  const auto workers = static_cast<std::uint64_t>(options.workers);
  const auto rank = static_cast<std::uint64_t>(options.rank);
  switch (options.strategy) {
    case Strategy::kReplicate:
      return step;
    case Strategy::kStream: {
      const std::uint64_t batch = (per_step(options) + workers - 1) / workers;
      const std::uint64_t before = std::min(rank * batch, step.count);
      return {step.first + before, std::min(batch, step.count - before)};
    }
    case Strategy::kPartition:
      break;
  }
  const std::uint64_t share = step.count / workers;
  const std::uint64_t larger = step.count % workers;  // the first `larger` ranks take one more
  return {step.first + rank * share + std::min(rank, larger), share + (rank < larger ? 1 : 0)};
}

// The permutation of an epoch; nullopt for file order.
std::optional<Permutation> permutation_of(const OrderOptions& options, std::uint64_t epoch) {
  if (!options.shuffle || options.strategy == Strategy::kStream) return std::nullopt;
  std::uint64_t key = mix(options.seed, epoch);
  if (options.strategy == Strategy::kReplicate)
    key = mix(key, 1 + static_cast<std::uint64_t>(options.rank));
  return Permutation(options.size, key);
}

}  // namespace

std::string_view to_string(Strategy strategy) {
  constexpr std::string_view kNames[] = {"partition", "replicate", "stream"};
  return kNames[static_cast<std::size_t>(strategy)];
}

Order::Order(const OrderOptions& options) : options_(options) {
  constexpr std::uint64_t kTooMany = std::uint64_t{1} << 32;
  TALLY_CHECK(options.batch > 0 && options.batch < kTooMany);
  TALLY_CHECK(options.workers > 0 && options.rank >= 0 && options.rank < options.workers);
  if (options.parts.empty()) return;
  TALLY_CHECK(options.parts.size() == static_cast<std::size_t>(options.workers));
  TALLY_CHECK(per_step(options) > 0 && per_step(options) < kTooMany);
}

std::uint64_t Order::steps_per_epoch() const {
  const std::uint64_t samples = per_step(options_);
  return options_.size / samples + (options_.size % samples != 0 ? 1 : 0);
}

// A part does not grow if the step becomes shorter.
std::uint64_t Order::largest_batch() const {
  return part_of(options_, {0, std::min(options_.size, per_step(options_))}).count;
}

std::vector<std::uint64_t> Order::next() {
  const std::uint64_t left = options_.size - position_.samples;
  const Range step{position_.samples, std::min(left, per_step(options_))};
  const Range part = part_of(options_, step);
  const std::optional<Permutation> permutation = permutation_of(options_, position_.epoch);
  std::vector<std::uint64_t> indices(part.count);
  for (std::uint64_t i = 0; i < part.count; ++i) {
    const std::uint64_t place = part.first + i;
    indices[i] = permutation ? (*permutation)(place) : place;
  }
  at_epoch_end_ = step.count == left;
  position_ = at_epoch_end_ ? Position{position_.epoch + 1, 0}
                            : Position{position_.epoch, position_.samples + step.count};
  return indices;
}

Result<void> Order::seek(const Position& position) {
  if (position.samples > options_.size) {
    return invalid(
        fmt::format("position after {} samples of an epoch, but the data have {}: other data?",
                    position.samples, options_.size));
  }
  const bool epoch_done = position.samples == options_.size && options_.size > 0;
  position_ = epoch_done ? Position{position.epoch + 1, 0} : position;
  at_epoch_end_ = false;
  return {};
}

std::uint64_t Order::samples_until(const Position& end) const {
  std::uint64_t samples = 0;
  for (Position at = position_; at < end && options_.size > 0;) {
    const std::uint64_t stop = at.epoch < end.epoch ? options_.size : end.samples;
    const Range step{at.samples, std::min(stop - at.samples, per_step(options_))};
    samples += part_of(options_, step).count;
    at.samples += step.count;
    if (at.samples == options_.size) at = {at.epoch + 1, 0};
  }
  return samples;
}

}  // namespace tally::data
