#include "exchange/lane/runs.h"

#include <algorithm>

#include "base/check.h"
#include "codec/codec.h"

// Cuts each entry's part in `local` at multiples of codec::kRunElements, and gives each run to the
// owner with the smallest load so far. `turn` counts owners from bucket_number on.
namespace tally::exchange {

std::vector<Run> runs_of(const BucketLayout& bucket, Range local, int owners,
                         std::size_t bucket_number) {
  TALLY_CHECK(owners > 0);
  const auto count = static_cast<std::size_t>(owners);
  std::vector<Run> runs;
  std::vector<std::size_t> loads(count);  // by turn: elements so far
  for (const BucketLayout::Entry& entry : bucket.entries) {
    const std::size_t end = std::min(entry.range.end, local.end);
    for (std::size_t begin = std::max(entry.range.begin, local.begin); begin < end;) {
      const std::size_t first = begin - entry.range.begin;
      const std::size_t rest = codec::kRunElements - first % codec::kRunElements;
      const Range range{begin, std::min(begin + rest, end)};
      const auto least = std::min_element(loads.begin(), loads.end());
      *least += range.count();
      const auto turn = static_cast<std::size_t>(least - loads.begin());
      runs.push_back({.parameter = entry.parameter,
                      .first = first,
                      .range = range,
                      .owner = static_cast<int>((turn + bucket_number) % count)});
      begin = range.end;
    }
  }
  return runs;
}

}  // namespace tally::exchange
