#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace tally::policy {

// The staleness of applied gradients. The last bin also counts everything above it.
class Histogram {
 public:
  static constexpr std::size_t kBins = 33;
  Histogram() = default;
  explicit Histogram(const std::array<std::uint64_t, kBins>& bins) : bins_(bins) {}

  void add(std::uint64_t staleness) { ++bins_[staleness < kBins ? staleness : kBins - 1]; }
  const std::array<std::uint64_t, kBins>& bins() const { return bins_; }
  std::uint64_t total() const {
    return std::accumulate(bins_.begin(), bins_.end(), std::uint64_t{0});
  }
  friend bool operator==(const Histogram&, const Histogram&) = default;

 private:
  std::array<std::uint64_t, kBins> bins_{};
};

}  // namespace tally::policy
