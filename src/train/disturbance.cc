#include "train/disturbance.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/rng.h"
#include "base/units.h"

namespace tally::train {
namespace {

constexpr double kMostFactor = 1000;
constexpr auto kMostDelay = std::chrono::hours(1);

template <typename T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// Returns the text before `separator`, and removes both from `text`.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view head = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return head;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Result<Disturbance::Straggler> parse_straggler(std::string_view text) {
  const std::string whole(text);
  std::optional<Rank> rank;
  std::optional<double> factor;
  while (!text.empty()) {
    std::string_view value = trimmed(take_until(text, ','));
    const std::string_view key = take_until(value, '=');
    if (key == "rank") {
      rank = number_of<Rank>(value);
    } else if (key == "factor") {
      factor = number_of<double>(value);
    } else {
      return invalid(fmt::format("'{}': expected rank=RANK,factor=FACTOR, found '{}'", whole, key));
    }
  }
  if (!rank || *rank < 0) return invalid(fmt::format("'{}': need a rank, such as rank=1", whole));
  if (!factor || !(*factor >= 1) || *factor > kMostFactor)
    return invalid(
        fmt::format("'{}': need a factor from 1 to {}, such as factor=4", whole, kMostFactor));
  return Disturbance::Straggler{.rank = *rank, .factor = *factor};
}

// A random number in (0, 1] that depends only on seed, rank and step.
double draw(std::uint64_t seed, Rank rank, std::uint64_t step) {
  Rng by_rank(seed ^ (static_cast<std::uint64_t>(rank) + 1) * 0x9E3779B97F4A7C15ULL);
  Rng by_step(by_rank.next() ^ step);
  return 1 - by_step.uniform();
}

Duration scaled(Duration time, double factor) {
  const double most = std::chrono::duration<double, std::nano>(kMostDelay).count();
  const double wanted = static_cast<double>(time.count()) * factor;
  return Duration(static_cast<Duration::rep>(std::min(wanted, most)));
}

}  // namespace

Result<std::vector<Disturbance::Straggler>> parse_stragglers(std::string_view text) {
  std::vector<Disturbance::Straggler> stragglers;
  while (!text.empty()) {
    TALLY_TRY(const Disturbance::Straggler straggler,
              parse_straggler(trimmed(take_until(text, ';'))));
    const bool is_there = std::any_of(stragglers.begin(), stragglers.end(), [&](const auto& other) {
      return other.rank == straggler.rank;
    });
    if (is_there) return invalid(fmt::format("rank {} is there twice", straggler.rank));
    stragglers.push_back(straggler);
  }
  return stragglers;
}

Result<std::optional<Disturbance::Delay>> parse_delay(std::string_view text) {
  if (text.empty()) return std::optional<Disturbance::Delay>();
  const std::string whole(text);
  const std::string_view kind = take_until(text, ':');
  if (kind != "exponential" && kind != "constant")
    return invalid(fmt::format(
        "'{}': expected exponential:TIME or constant:TIME, as in exponential:20ms", whole));
  Disturbance::Delay delay{.exponential = kind == "exponential"};
  if (!text.empty() && text.back() == 'x') {
    const auto factor = number_of<double>(text.substr(0, text.size() - 1));
    if (!factor || !(*factor > 0) || *factor > kMostFactor)
      return invalid(
          fmt::format("'{}': {}: need a multiple of the compute time, such as 1x", whole, text));
    delay.of_compute = *factor;
    return std::optional(delay);
  }
  const auto mean = parse_duration(text);
  if (!mean || *mean <= Duration::zero() || *mean > kMostDelay)
    return invalid(fmt::format("'{}': '{}': need a time up to an hour, such as 20ms", whole, text));
  delay.mean = *mean;
  return std::optional(delay);
}

Duration sleep_of(const Disturbance& disturbance, Rank rank, std::uint64_t step, Duration compute) {
  Duration sleep{};
  for (const Disturbance::Straggler& straggler : disturbance.stragglers)
    if (straggler.rank == rank) sleep += scaled(compute, straggler.factor - 1);
  if (!disturbance.delay) return sleep;
  const Disturbance::Delay& delay = *disturbance.delay;
  const Duration mean = delay.mean + scaled(compute, delay.of_compute);
  const double factor = delay.exponential ? -std::log(draw(disturbance.seed, rank, step)) : 1.0;
  return sleep + scaled(mean, factor);
}

}  // namespace tally::train
