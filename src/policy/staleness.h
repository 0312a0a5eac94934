#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace tally::policy {

// How stale applied gradients were. The last bin is "that or more".
class Histogram {
 public:
  static constexpr std::size_t kBins = 33;
  void add(std::uint64_t staleness) { ++bins_[staleness < kBins ? staleness : kBins - 1]; }
  const std::array<std::uint64_t, kBins>& bins() const { return bins_; }

 private:
  std::array<std::uint64_t, kBins> bins_{};
};

}  // namespace tally::policy
