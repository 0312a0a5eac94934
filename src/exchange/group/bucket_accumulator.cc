#include "exchange/group/bucket_accumulator.h"

#include <algorithm>

#include "base/check.h"
#include "kernel/array/weighted_sum.h"

namespace tally::exchange {

BucketAccumulator::BucketAccumulator(const ModelMemory& memory, std::size_t bucket, int local,
                                     int locals)
    : memory_(memory),
      bucket_(bucket),
      local_(local),
      locals_(locals),
      added_(memory.layout().buckets[bucket].entries.size()),
      missing_(added_.size()) {}

std::size_t BucketAccumulator::index_of(std::size_t parameter) const {
  const auto& entries = memory_.layout().buckets[bucket_].entries;
  const std::size_t begin = memory_.layout().place_of[parameter].begin;
  const auto found =
      std::partition_point(entries.begin(), entries.end(),
                           [begin](const auto& entry) { return entry.range.begin < begin; });
  auto entry = found;
  while (entry != entries.end() && entry->parameter != parameter) ++entry;
  TALLY_CHECK(entry != entries.end());
  return static_cast<std::size_t>(entry - entries.begin());
}

bool BucketAccumulator::add(std::size_t parameter, const std::byte* elsewhere) {
  const std::size_t index = index_of(parameter);
  if (added_[index]) return false;
  added_[index] = true;
  const BucketLayout& bucket = memory_.layout().buckets[bucket_];
  const std::byte* const own = memory_.gradient_bucket(bucket_, local_) +
                               bucket.entries[index].range.begin * size_of(bucket.type);
  memory_.put_gradient(parameter, elsewhere != nullptr ? elsewhere : own);
  return --missing_ == 0;
}

bool BucketAccumulator::has(std::size_t parameter) const { return added_[index_of(parameter)]; }

void BucketAccumulator::publish_missing() {
  const BucketLayout& bucket = memory_.layout().buckets[bucket_];
  for (std::size_t i = 0; i < added_.size(); ++i)
    if (!added_[i]) memory_.put_gradient(bucket.entries[i].parameter, nullptr);
}

void BucketAccumulator::close(std::uint64_t step) const {
  memory_.flags(local_).complete(bucket_, step);
}

bool BucketAccumulator::is_complete(std::uint64_t step) const {
  for (int neighbour = 0; neighbour < locals_; ++neighbour)
    if (!memory_.flags(neighbour).is_complete(bucket_, step)) return false;
  return true;
}

void BucketAccumulator::clear() {
  std::fill(added_.begin(), added_.end(), false);
  missing_ = added_.size();
}

double BucketAccumulator::samples() const {
  double samples = 0;
  for (int n = 0; n < locals_; ++n) samples += memory_.flags(n).samples();
  return samples;
}

template <typename T>
BucketAccumulator::Sum<T>::Sum(const BucketAccumulator& of, double divisor)
    : of_(of),
      layout_(of.memory_.layout().buckets[of.bucket_]),
      inputs_(static_cast<std::size_t>(of.locals_)) {
  for (int n = 0; n < of.locals_; ++n) {
    const StepFlags& flags = of.memory_.flags(n);
    weights_.push_back(flags.samples() > 0 ? static_cast<T>(flags.weight() / divisor) : T{0});
  }
}

template <typename T>
void BucketAccumulator::Sum<T>::operator()(Range part, T* out) {
  const auto first =
      std::partition_point(layout_.entries.begin(), layout_.entries.end(),
                           [&](const auto& entry) { return entry.range.end <= part.begin; });
  for (auto entry = first; entry != layout_.entries.end() && entry->range.begin < part.end; ++entry)
    sum_entry(*entry, part, out);
}

template <typename T>
void BucketAccumulator::Sum<T>::sum_entry(const BucketLayout::Entry& entry, Range part, T* out) {
  const Range common{std::max(entry.range.begin, part.begin), std::min(entry.range.end, part.end)};
  entry_weights_ = weights_;
  for (int n = 0; n < of_.locals_; ++n) {
    const auto index = static_cast<std::size_t>(n);
    if (weights_[index] == T{0}) continue;
    const std::byte* const gradient = of_.memory_.gradient(entry.parameter, n);
    if (gradient == nullptr) {
      entry_weights_[index] = T{0};
    } else {
      inputs_[index] = gradient + (common.begin - entry.range.begin) * size_of(layout_.type);
    }
  }
  kernel::weighted_sum(layout_.type, inputs_, std::span<const T>(entry_weights_),
                       out + (common.begin - part.begin), common.count());
}

template class BucketAccumulator::Sum<float>;
template class BucketAccumulator::Sum<double>;

}  // namespace tally::exchange
