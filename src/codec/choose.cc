#include "codec/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/check.h"

namespace tally::codec {
namespace {

constexpr double kWorthIt = 1.03;

constexpr double kNever = std::numeric_limits<double>::infinity();

std::string with_unit(double value, std::string_view unit) {
  return value < 99.95 ? fmt::format("{:.1f} {}", value, unit)
                       : fmt::format("{:.0f} {}", value, unit);
}

std::string text_of_seconds(double seconds) {
  if (seconds >= 1) return with_unit(seconds, "s");
  return seconds >= 1e-3 ? with_unit(seconds * 1e3, "ms") : with_unit(seconds * 1e6, "us");
}

std::string text_of_rate(double seconds_per_byte) {
  if (!(seconds_per_byte > 0)) return "any rate";
  const double rate = 1 / seconds_per_byte;
  if (rate >= 1e9) return with_unit(rate / 1e9, "GB/s");
  return rate >= 1e6 ? with_unit(rate / 1e6, "MB/s") : with_unit(rate / 1e3, "kB/s");
}

// The predicted times; kNever for an unknown one.
std::vector<double> seconds_of(const WireCost& wire, std::span<const Candidate> candidates) {
  std::vector<double> times;
  for (const Candidate& candidate : candidates) {
    const double seconds = predicted_seconds(wire, candidate);
    times.push_back(std::isfinite(seconds) && seconds >= 0 ? seconds : kNever);
  }
  return times;
}

// The best of the other candidates.
std::size_t second_of(std::span<const double> times, std::size_t chosen) {
  std::size_t second = chosen == 0 ? 1 : 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (i != chosen && times[i] < times[second]) second = i;
  }
  return second;
}

}  // namespace

double predicted_seconds(const WireCost& wire, const Candidate& candidate) {
  return candidate.codec_seconds +
         static_cast<double>(candidate.messages) * wire.seconds_per_message +
         static_cast<double>(candidate.bytes) * wire.seconds_per_byte;
}

std::string reason_of(const WireCost& wire, const BucketFacts& facts,
                      std::span<const Candidate> candidates, std::size_t chosen) {
  TALLY_CHECK(chosen < candidates.size());
  const std::vector<double> times = seconds_of(wire, candidates);
  std::string text = fmt::format("bucket {}: {}, {}", facts.bucket, candidates[chosen].text,
                                 text_of_seconds(times[chosen]));
  const std::string rate = text_of_rate(wire.seconds_per_byte);
  if (chosen > 0 && std::isfinite(times[0]))
    return fmt::format("{} instead of {} at {}", text, text_of_seconds(times[0]), rate);
  text += fmt::format(" at {}", rate);
  if (facts.hidden_seconds > 0 && times[chosen] <= facts.hidden_seconds)
    return text +
           fmt::format(", hidden behind {} of computing", text_of_seconds(facts.hidden_seconds));
  if (times.size() == 1) return text;
  const std::size_t second = second_of(times, chosen);
  if (!std::isfinite(times[second])) return text;
  return text +
         fmt::format("; {} would take {}", candidates[second].text, text_of_seconds(times[second]));
}

CodecChoice choose_codec(const WireCost& wire, const BucketFacts& facts,
                         std::span<const Candidate> candidates) {
  TALLY_CHECK(!candidates.empty());
  const std::vector<double> times = seconds_of(wire, candidates);
  // The time at which a step can continue: not before the computation ends.
  const auto done_after = [&facts](double seconds) {
    return std::max(seconds, facts.hidden_seconds);
  };
  const double earliest = done_after(*std::min_element(times.begin(), times.end()));
  if (!std::isfinite(earliest)) {
    return {.reason = fmt::format("bucket {}: {}, because nothing could be measured", facts.bucket,
                                  candidates[0].text)};
  }
  std::size_t chosen = 0;
  while (done_after(times[chosen]) > earliest * kWorthIt) ++chosen;
  return {.index = chosen,
          .seconds = times[chosen],
          .reason = reason_of(wire, facts, candidates, chosen)};
}

std::size_t fastest_of(std::span<const double> step_seconds) {
  double least = kNever;
  for (const double seconds : step_seconds)
    if (std::isfinite(seconds) && seconds > 0) least = std::min(least, seconds);
  for (std::size_t i = 0; i < step_seconds.size(); ++i)
    if (step_seconds[i] > 0 && step_seconds[i] <= least * kWorthIt && std::isfinite(least))
      return i;
  return 0;
}

std::vector<std::string> candidates_of(const plan::CodecSpec& spec) {
  std::vector<std::string> texts = spec.candidates;
  if (texts.empty()) texts = {"bf16", "int8", "qsgd", "powersgd:4"};
  texts.erase(std::remove(texts.begin(), texts.end(), "none"), texts.end());
  texts.insert(texts.begin(), "none");
  return texts;
}

}  // namespace tally::codec
