#include "exchange/auto_codec/codec_decision.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/units.h"

// Buckets travel one after the other: bucket b starts at begin = max(end of b - 1, -early_seconds)
// and takes predicted_seconds(). Time 0 is the end of the backward pass.
//   decide()      fastest[b] is the time of the fastest candidate. end_of_all(fastest) is the
//                 earliest possible end. due[b], computed from the last bucket to the first, is the
//                 latest end of b with which the following buckets can still meet that end. Each
//                 bucket then gets the first candidate that ends by due[b].
//   finalists()   collects the uncompressed assignment, decide() with and without overlap, and the
//                 uniform assignments that beat no compression without overlap, fastest first.
namespace tally::exchange {
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

// The time of arrival of the last bucket, counted from the end of the backward pass.
double end_of_all(const CodecFigures& figures, const std::vector<double>& seconds) {
  double end = kLongAgo;
  for (std::size_t b = 0; b < seconds.size(); ++b)
    end = std::max(end, -figures.buckets[b].early_seconds) + seconds[b];
  return std::max(end, 0.0);
}

CodecFigures with_nothing_hidden(CodecFigures figures) {
  for (CodecFigures::Bucket& bucket : figures.buckets) bucket.early_seconds = 0;
  return figures;
}

// Predicts late_seconds, plain_late_seconds and bytes from decision.chosen.
void foresee(const CodecFigures& figures, CodecDecision& decision) {
  std::vector<double> plain;
  std::vector<double> taken;
  decision.bytes = 0;
  for (std::size_t b = 0; b < figures.buckets.size(); ++b) {
    const auto& candidates = figures.buckets[b].candidates;
    const codec::Candidate& chosen = candidates[decision.chosen[b]];
    plain.push_back(codec::predicted_seconds(figures.wire, candidates[0]));
    taken.push_back(codec::predicted_seconds(figures.wire, chosen));
    decision.bytes += chosen.bytes;
  }
  decision.late_seconds = end_of_all(figures, taken);
  decision.plain_late_seconds = end_of_all(figures, plain);
}

// One candidate for all buckets for which it was measured; the other buckets stay uncompressed.
CodecDecision uniform(const CodecFigures& figures, std::size_t candidate) {
  CodecDecision decision;
  for (std::size_t b = 0; b < figures.buckets.size(); ++b) {
    const auto& candidates = figures.buckets[b].candidates;
    const bool is_known =
        candidate < candidates.size() &&
        std::isfinite(codec::predicted_seconds(figures.wire, candidates[candidate]));
    decision.chosen.push_back(is_known ? candidate : 0);
    decision.reasons.push_back(
        codec::reason_of(figures.wire, {.bucket = b}, candidates, decision.chosen.back()));
  }
  foresee(figures, decision);
  return decision;
}

}  // namespace

CodecDecision decide(const CodecFigures& figures) {
  std::vector<double> fastest;
  for (const CodecFigures::Bucket& bucket : figures.buckets) {
    TALLY_CHECK(!bucket.candidates.empty());
    fastest.push_back(fastest_seconds(figures.wire, bucket));
  }
  // The time by which a bucket must arrive so that the following buckets can be in time.
  std::vector<double> due(fastest.size());
  double next_due = end_of_all(figures, fastest);
  for (std::size_t b = due.size(); b-- > 0;) {
    due[b] = next_due;
    next_due -= fastest[b];
  }
  CodecDecision decision;
  double end = kLongAgo;
  for (std::size_t b = 0; b < due.size(); ++b) {
    const CodecFigures::Bucket& bucket = figures.buckets[b];
    const double begin = std::max(end, -bucket.early_seconds);
    // If even the fastest candidate uses up the time, no time is hidden.
    const double spare = due[b] - begin;
    const codec::CodecChoice choice = codec::choose_codec(
        figures.wire, {.bucket = b, .hidden_seconds = spare > kSome * fastest[b] ? spare : 0},
        bucket.candidates);
    end = begin + choice.seconds;
    decision.chosen.push_back(choice.index);
    decision.reasons.push_back(choice.reason);
  }
  foresee(figures, decision);
  return decision;
}

std::vector<CodecDecision> finalists(const CodecFigures& figures, std::size_t most) {
  const CodecFigures unhidden = with_nothing_hidden(figures);
  std::vector<CodecDecision> found = {uniform(figures, 0)};
  const auto add = [&](CodecDecision decision) {
    const bool is_new = std::none_of(found.begin(), found.end(), [&](const CodecDecision& other) {
      return other.chosen == decision.chosen;
    });
    if (!is_new || found.size() > most) return;
    foresee(figures, decision);
    found.push_back(std::move(decision));
  };
  add(decide(figures));
  add(decide(unhidden));
  std::vector<std::pair<double, std::size_t>> uniforms;  // seconds, candidate
  std::size_t candidates = 0;
  for (const auto& bucket : figures.buckets)
    candidates = std::max(candidates, bucket.candidates.size());
  for (std::size_t c = 1; c < candidates; ++c) {
    const CodecDecision decision = uniform(unhidden, c);
    if (decision.late_seconds < decision.plain_late_seconds)
      uniforms.emplace_back(decision.late_seconds, c);
  }
  std::sort(uniforms.begin(), uniforms.end());
  for (const auto& [seconds, candidate] : uniforms) add(uniform(figures, candidate));
  std::stable_sort(
      found.begin() + 1, found.end(),
      [](const CodecDecision& a, const CodecDecision& b) { return a.bytes > b.bytes; });
  return found;
}

std::string shares_of(const CodecFigures& figures, const CodecDecision& decision) {
  std::vector<std::pair<std::string, std::size_t>> counts;
  for (std::size_t b = 0; b < decision.chosen.size(); ++b) {
    const std::string& text = figures.buckets[b].candidates[decision.chosen[b]].text;
    const auto found = std::find_if(counts.begin(), counts.end(),
                                    [&](const auto& count) { return count.first == text; });
    if (found == counts.end()) {
      counts.emplace_back(text, 1);
    } else {
      ++found->second;
    }
  }
  std::vector<std::string> shares;
  for (const auto& [text, count] : counts) shares.push_back(fmt::format("{} {}", count, text));
  return fmt::format("{}", fmt::join(shares, ", "));
}

std::string sentence_of(const CodecFigures& figures, const CodecDecision& decision) {
  std::size_t largest = 0;
  for (std::size_t b = 0; b < figures.buckets.size(); ++b)
    if (figures.buckets[b].candidates[0].bytes > figures.buckets[largest].candidates[0].bytes)
      largest = b;
  std::string speed = "any speed";
  if (figures.wire.seconds_per_byte > 0)
    speed = format_bytes_per_second(1 / figures.wire.seconds_per_byte);
  std::string sentence = fmt::format(
      "codec=auto: {} between hosts; of {} buckets {}; the last is there {} after the backward "
      "pass",
      speed, decision.chosen.size(), shares_of(figures, decision), text_of(decision.late_seconds));
  const bool all_plain = std::all_of(decision.chosen.begin(), decision.chosen.end(),
                                     [](std::size_t chosen) { return chosen == 0; });
  if (!all_plain) sentence += " instead of " + text_of(decision.plain_late_seconds);
  if (!decision.reasons.empty()) sentence += "; " + decision.reasons[largest];
  return sentence;
}

}  // namespace tally::exchange
