#include "exchange/memory/parameter_layout.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace tally::exchange {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kPage = 4096;

std::size_t rounded_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

std::size_t ParameterInfo::count() const {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

Layout make_layout(const std::vector<ParameterInfo>& parameters, std::span<const std::size_t> order,
                   std::size_t bucket_bytes) {
  TALLY_CHECK(order.size() == parameters.size());
  Layout layout;
  layout.place_of.resize(parameters.size());
  std::map<DataType, std::size_t> open;  // by type: the bucket that accepts parameters
  for (const std::size_t index : order) {
    const ParameterInfo& parameter = parameters[index];
    const auto [found, is_new] = open.emplace(parameter.type, layout.buckets.size());
    if (is_new) layout.buckets.push_back({.type = parameter.type});
    BucketLayout& bucket = layout.buckets[found->second];
    const std::size_t begin = rounded_up(bucket.count, kCacheLine / size_of(parameter.type));
    bucket.count = begin + parameter.count();
    bucket.entries.push_back({.parameter = index, .range = {begin, bucket.count}});
    layout.place_of[index] = {.bucket = found->second, .begin = begin};
    if (bucket.bytes() >= bucket_bytes) open.erase(found);
  }
  for (BucketLayout& bucket : layout.buckets) {
    bucket.offset = layout.bytes;
    layout.bytes += rounded_up(bucket.bytes(), kPage);
  }
  return layout;
}

Range part_of(Range whole, const Share& share) {
  if (whole.empty()) return whole;
  TALLY_CHECK(whole.begin % kBlock == 0);
  const std::size_t blocks = (whole.count() + kBlock - 1) / kBlock;
  const auto parts = static_cast<std::size_t>(share.parts);
  const std::size_t turned = (static_cast<std::size_t>(share.index) + share.first) % parts;
  const auto cut = [&](std::size_t part) {
    const std::size_t block = blocks * part / parts;
    return std::min(whole.begin + block * kBlock, whole.end);
  };
  return {cut(turned), cut(turned + 1)};
}

Range entries_of(const BucketLayout& bucket, const Share& share) {
  const auto parts = static_cast<std::size_t>(share.parts);
  const std::size_t turned = (static_cast<std::size_t>(share.index) + share.first) % parts;
  // A part has the entries whose middle lies in it.
  const auto cut = [&](std::size_t part) {
    for (const BucketLayout::Entry& entry : bucket.entries)
      if ((entry.range.begin + entry.range.end) * parts >= 2 * bucket.count * part)
        return entry.range.begin;
    return bucket.count;
  };
  return {cut(turned), turned + 1 == parts ? bucket.count : cut(turned + 1)};
}

}  // namespace tally::exchange
