#include "exchange/group/bucket_accumulator.h"

#include <algorithm>
#include <cstring>

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
  TALLY_CHECK(elsewhere == nullptr || locals_ == 1);
  Added& added = added_[index_of(parameter)];
  if (added.is_here) return false;
  added = {.is_here = true, .elsewhere = elsewhere};
  if (elsewhere != nullptr) all_in_bucket_ = false;
  return --missing_ == 0;
}

bool BucketAccumulator::has(std::size_t parameter) const {
  return added_[index_of(parameter)].is_here;
}

void BucketAccumulator::zero_missing() {
  const BucketLayout& bucket = memory_.layout().buckets[bucket_];
  const std::size_t element = size_of(bucket.type);
  std::byte* const own = memory_.gradients(bucket_, local_);
  for (std::size_t i = 0; i < added_.size(); ++i)
    if (!added_[i].is_here)
      std::memset(own + bucket.entries[i].range.begin * element, 0,
                  bucket.entries[i].range.count() * element);
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
  std::fill(added_.begin(), added_.end(), Added{});
  missing_ = added_.size();
  all_in_bucket_ = true;
}

double BucketAccumulator::samples() const {
  double samples = 0;
  for (int n = 0; n < locals_; ++n) samples += memory_.flags(n).samples();
  return samples;
}

template <typename T>
BucketAccumulator::Sum<T>::Sum(const BucketAccumulator& of, double divisor)
    : of_(of), inputs_(static_cast<std::size_t>(of.locals_)) {
  for (int n = 0; n < of.locals_; ++n) {
    const StepFlags& flags = of.memory_.flags(n);
    weights_.push_back(flags.samples() > 0 ? static_cast<T>(flags.weight() / divisor) : T{0});
  }
}

template <typename T>
void BucketAccumulator::Sum<T>::operator()(Range part, T* out) {
  const BucketLayout& bucket = of_.memory_.layout().buckets[of_.bucket_];
  const std::size_t element = size_of(bucket.type);
  if (of_.all_in_bucket_) {
    for (int n = 0; n < of_.locals_; ++n)
      inputs_[static_cast<std::size_t>(n)] =
          of_.memory_.gradients(of_.bucket_, n) + part.begin * element;
    return kernel::weighted_sum(bucket.type, inputs_, std::span<const T>(weights_), out,
                                part.count());
  }
  for (std::size_t i = 0; i < of_.added_.size(); ++i) {
    const Range entry = bucket.entries[i].range;
    const Range common{std::max(entry.begin, part.begin), std::min(entry.end, part.end)};
    if (common.begin >= common.end) continue;
    inputs_.front() = of_.added_[i].elsewhere != nullptr
                          ? of_.added_[i].elsewhere + (common.begin - entry.begin) * element
                          : of_.memory_.gradients(of_.bucket_, of_.local_) + common.begin * element;
    kernel::weighted_sum(bucket.type, inputs_, std::span<const T>(weights_),
                         out + (common.begin - part.begin), common.count());
  }
}

template class BucketAccumulator::Sum<float>;
template class BucketAccumulator::Sum<double>;

}  // namespace tally::exchange
