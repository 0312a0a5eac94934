#include "train/codec_decision.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/units.h"

namespace tally::train {
namespace {

constexpr double kLongAgo = -std::numeric_limits<double>::infinity();

constexpr double kSome = 1.001;

std::string text_of(double seconds) {
  return format_duration(std::chrono::microseconds(std::llround(seconds * 1e6)));
}

double fastest_seconds(const codec::WireCost& wire, const CodecFigures::Bucket& bucket) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const codec::Candidate& candidate : bucket.candidates) {
    const double seconds = codec::predicted_seconds(wire, candidate);
    if (std::isfinite(seconds) && seconds >= 0) fastest = std::min(fastest, seconds);
  }
  return std::isfinite(fastest) ? fastest : 0;
}

// When the last of all is there, counted from the end of the backward pass, if each takes its time once it is ready and the
// one before it is there.
double end_of_all(const CodecFigures& figures, const std::vector<double>& seconds) {
  double end = kLongAgo;
  for (std::size_t b = 0; b < seconds.size(); ++b)
    end = std::max(end, -figures.buckets[b].early_seconds) + seconds[b];
  return std::max(end, 0.0);
}

}  // namespace

CodecDecision decide(const CodecFigures& figures) {
  std::vector<double> plain;
  std::vector<double> fastest;
  for (const CodecFigures::Bucket& bucket : figures.buckets) {
    TALLY_CHECK(!bucket.candidates.empty());
    plain.push_back(codec::predicted_seconds(figures.wire, bucket.candidates[0]));
    fastest.push_back(fastest_seconds(figures.wire, bucket));
  }
  // When a bucket must be there so that all others can be in time.
  std::vector<double> due(fastest.size());
  double next_due = end_of_all(figures, fastest);
  for (std::size_t b = due.size(); b-- > 0;) {
    due[b] = next_due;
    next_due -= fastest[b];
  }
  CodecDecision decision{.plain_late_seconds = end_of_all(figures, plain)};
  std::vector<double> taken;
  double end = kLongAgo;
  for (std::size_t b = 0; b < due.size(); ++b) {
    const CodecFigures::Bucket& bucket = figures.buckets[b];
    const double begin = std::max(end, -bucket.early_seconds);
    // Time that even the fastest needs hides nothing.
    const double spare = due[b] - begin;
    const codec::CodecChoice choice = codec::choose_codec(
        figures.wire, {.bucket = b, .hidden_seconds = spare > kSome * fastest[b] ? spare : 0},
        bucket.candidates);
    end = begin + choice.seconds;
    taken.push_back(choice.seconds);
    decision.chosen.push_back(choice.index);
    decision.reasons.push_back(choice.reason);
  }
  decision.late_seconds = end_of_all(figures, taken);
  return decision;
}

std::string sentence_of(const CodecFigures& figures, const CodecDecision& decision) {
  std::vector<std::pair<std::string, std::size_t>> counts;
  std::size_t largest = 0;
  for (std::size_t b = 0; b < decision.chosen.size(); ++b) {
    const auto& candidates = figures.buckets[b].candidates;
    const std::string& text = candidates[decision.chosen[b]].text;
    const auto found = std::find_if(counts.begin(), counts.end(),
                                    [&](const auto& count) { return count.first == text; });
    if (found == counts.end()) {
      counts.emplace_back(text, 1);
    } else {
      ++found->second;
    }
    if (candidates[0].bytes > figures.buckets[largest].candidates[0].bytes) largest = b;
  }
  std::vector<std::string> shares;
  for (const auto& [text, count] : counts) shares.push_back(fmt::format("{} {}", count, text));
  std::string speed = "any speed";
  if (figures.wire.seconds_per_byte > 0)
    speed = format_bytes_per_second(1 / figures.wire.seconds_per_byte);
  std::string sentence = fmt::format(
      "codec=auto: {} between hosts; of {} buckets {}; the last is there {} after the backward "
      "pass",
      speed, decision.chosen.size(), fmt::join(shares, ", "), text_of(decision.late_seconds));
  const bool all_plain = std::all_of(decision.chosen.begin(), decision.chosen.end(),
                                     [](std::size_t chosen) { return chosen == 0; });
  if (!all_plain) sentence += " instead of " + text_of(decision.plain_late_seconds);
  if (!decision.reasons.empty()) sentence += "; " + decision.reasons[largest];
  return sentence;
}

}  // namespace tally::train
