#include "train/balance.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace tally::train {
namespace {

constexpr std::uint64_t kUncounted = 3;  // first steps
constexpr double kNewest = 0.2;          // weight of the newest step in the mean
constexpr std::uint64_t kFirst = 10;
constexpr std::uint64_t kEvery = 50;

}  // namespace

void ComputeSpeed::add(std::uint64_t samples, Duration compute) {
  // The last step of an epoch may have no sample for this worker.
  if (samples == 0 || ++steps_ <= kUncounted) return;
  const double seconds = std::chrono::duration<double>(compute).count();
  const double newest = steps_ == kUncounted + 1 ? 1 : kNewest;
  samples_ += newest * (static_cast<double>(samples) - samples_);
  seconds_ += newest * (seconds - seconds_);
}

double ComputeSpeed::value() const { return seconds_ > 0 ? samples_ / seconds_ : 0; }

bool balances_after(std::uint64_t steps) {
  return steps >= kFirst && (steps - kFirst) % kEvery == 0;
}

// Each worker gets one sample, and the rest is divided by the method of the largest remainder: the
// whole parts of the shares first, and what is left by the size of the fractions, in the order of
// ranks where these are equal. The one sample is a part of a worker's share, unless that is less.
std::vector<std::uint64_t> balanced_parts(std::uint64_t total, std::span<const double> speeds) {
  const std::size_t workers = speeds.size();
  TALLY_CHECK(workers > 0 && total >= workers);
  const auto is_known = [](double speed) { return speed > 0 && std::isfinite(speed); };
  double sum = 0;
  std::size_t known = 0;
  for (const double speed : speeds) {
    if (!is_known(speed)) continue;
    sum += speed;
    ++known;
  }
  const double mean = known > 0 ? sum / static_cast<double>(known) : 1;
  std::vector<double> shares;
  for (const double speed : speeds) shares.push_back(is_known(speed) ? speed : mean);
  sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share = std::max(0.0, share / sum * static_cast<double>(total) - 1);
  // What the minimum of one adds to slow workers is taken from the others in proportion.
  const double above = std::accumulate(shares.begin(), shares.end(), 0.0);
  const std::uint64_t rest = total - workers;
  std::vector<std::uint64_t> parts(workers, 1);
  std::uint64_t given = 0;
  for (std::size_t i = 0; i < workers; ++i) {
    if (above > 0) shares[i] *= static_cast<double>(rest) / above;
    const auto whole = std::min(static_cast<std::uint64_t>(shares[i]), rest - given);
    parts[i] += whole;
    given += whole;
    shares[i] -= static_cast<double>(whole);
  }
  std::vector<std::size_t> order(workers);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  for (std::size_t i = 0; given < rest; ++given) ++parts[order[i++ % workers]];
  return parts;
}

bool is_worth_changing(std::span<const std::uint64_t> now, std::span<const std::uint64_t> next) {
  TALLY_CHECK(now.size() == next.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    const std::uint64_t change = now[i] > next[i] ? now[i] - next[i] : next[i] - now[i];
    if (change > std::max<std::uint64_t>(1, now[i] / 20)) return true;
  }
  return false;
}

}  // namespace tally::train
