#include "exchange/auto_codec/auto_codec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/units.h"
#include "exchange/auto_codec/bucket_trial.h"

// The choice of codec=auto, in the order of calls on each rank:
//   1. measure(), kSteps times: probe() times small and large messages, which gives the wire's
//      seconds_per_message and seconds_per_byte. try_on() fills costs_[bucket][candidate], one
//      candidate in kSteps per step. ended() keeps the shortest lead of each bucket in early_.
//   2. next(): agreed_figures() takes the maximum of all numbers over all ranks, and finalists()
//      turns them into ways_. ways_[0] sends everything uncompressed.
//   3. next(), every kTrySteps steps: moves to the next way; stepped() keeps its shortest step.
//   4. choose(): takes the way with the shortest steps.
namespace tally::exchange {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();
constexpr int kSmallProbes = 3;
constexpr std::size_t kSmallBytes = 8;
// The bytes that one member sends to all others: more than the bursts that switches let pass.
constexpr std::size_t kLargeBytes = std::size_t{1} << 20;

double seconds_between(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

void keep_least(std::optional<double>& least, double value) {
  least = std::min(least.value_or(kUnknown), value);
}

plan::CodecSpec parsed(const std::string& text) {
  // The plan has validated its candidates.
  auto spec = plan::parse_codec(text);
  TALLY_CHECK(spec.has_value());
  // The optimizer has applied the momentum in the steps before the choice, and keeps doing so.
  spec->early_momentum = spec->masks = false;
  return *std::move(spec);
}

}  // namespace

AutoCodec::AutoCodec(Options options)
    : options_(std::move(options)),
      ready_at_(options_.buckets.size()),
      early_(options_.buckets.size(), kUnknown),
      step_seconds_(1, kUnknown) {
  TALLY_CHECK(options_.local.size() == options_.buckets.size());
  for (const std::string& text : codec::candidates_of(options_.spec))
    specs_.push_back(parsed(text));
  for (std::size_t b = 0; b < options_.buckets.size(); ++b) {
    costs_.emplace_back();
    for (std::size_t c = 0; c < specs_.size(); ++c) costs_[b].push_back(candidate_of(b, c));
  }
}

// The estimate before a measurement. A member that owns 1/n of the elements sends the rest to the
// other members, and its own part back.
codec::Candidate AutoCodec::candidate_of(std::size_t bucket, std::size_t candidate) const {
  const BucketLayout& layout = options_.buckets[bucket];
  const double others = (options_.hosts - 1.0) / options_.hosts;
  const std::size_t element = layout.type == DataType::kFloat64 ? sizeof(double) : sizeof(float);
  const auto bytes = static_cast<double>(options_.local[bucket].count() * element);
  return {.text = plan::to_string(specs_[candidate]),
          .bytes = static_cast<std::size_t>(2 * others * bytes),
          .messages = 2,
          .codec_seconds = candidate == 0 ? 0 : kUnknown};
}

void AutoCodec::ready(std::size_t bucket) { ready_at_[bucket] = clock_.now(); }

void AutoCodec::ended() {
  const TimePoint end = clock_.now();
  for (std::size_t b = 0; b < early_.size() && steps_ > 0; ++b)
    early_[b] = std::min(early_[b], ready_at_[b] ? seconds_between(*ready_at_[b], end) : 0.0);
  std::fill(ready_at_.begin(), ready_at_.end(), std::nullopt);
}

// The first step of each way is not timed: it allocates memory.
void AutoCodec::stepped() {
  if (begin_ && steps_of_way_ > 0)
    step_seconds_[way_] = std::min(step_seconds_[way_], seconds_between(*begin_, clock_.now()));
  ++steps_of_way_;
}

void AutoCodec::goes_on() { begin_ = clock_.now(); }

Result<void> AutoCodec::measure(Lane& lane, std::span<const std::span<const float>> gradients) {
  TALLY_CHECK(gradients.size() == costs_.size() && is_measuring());
  if (!options_.wire) TALLY_TRY(probe(lane));
  const auto turn = static_cast<std::size_t>(steps_);
  for (std::size_t b = 0; b < costs_.size(); ++b) {
    for (std::size_t c = 1 + turn; c < specs_.size(); c += kSteps) {
      const auto known = try_on({.spec = specs_[c],
                                 .parameters = options_.parameters,
                                 .bucket = options_.buckets[b],
                                 .local = options_.local[b],
                                 .hosts = options_.hosts,
                                 .seed = options_.seed},
                                gradients[b], clock_);
      if (known) costs_[b][c] = *known;
    }
  }
  ++steps_;
  return {};
}

// Sends the large message twice: after a pause the network lets a burst pass, which would make the
// first one too fast.
Result<void> AutoCodec::probe(Lane& lane) {
  const auto members = static_cast<std::size_t>(lane.size());
  const auto exchange = [&](std::size_t bytes) -> Result<double> {
    Parcels out{.bytes = std::vector<std::byte>(bytes * members),
                .sizes = std::vector<std::size_t>(members, bytes)};
    Parcels in;
    const TimePoint begin = clock_.now();
    TALLY_TRY(lane.exchange(out, {.at_most = out.sizes, .exactly = true}, in).finish());
    return seconds_between(begin, clock_.now());
  };
  for (int i = 0; i < kSmallProbes; ++i) {
    TALLY_TRY(const double seconds, exchange(kSmallBytes));
    keep_least(small_seconds_, seconds);
  }
  const std::size_t each = kLargeBytes / (members - 1);
  large_bytes_ = each * (members - 1);
  TALLY_TRY(exchange(each));
  TALLY_TRY(const double seconds, exchange(each));
  keep_least(large_seconds_, seconds);
  return {};
}

CodecFigures AutoCodec::figures() const {
  CodecFigures figures;
  if (options_.wire) {
    figures.wire = *options_.wire;
  } else {
    const double small = small_seconds_.value_or(0);
    figures.wire.seconds_per_message = small;
    figures.wire.seconds_per_byte =
        std::max(0.0, large_seconds_.value_or(0) - small) / static_cast<double>(large_bytes_);
  }
  for (std::size_t b = 0; b < costs_.size(); ++b)
    figures.buckets.push_back(
        {.early_seconds = std::isfinite(early_[b]) ? early_[b] : 0, .candidates = costs_[b]});
  return figures;
}

// Packs all numbers into one all-reduce of maxima. early_seconds is negated, so that the shortest
// lead counts.
Result<CodecFigures> AutoCodec::agreed_figures(Communicator& world) const {
  CodecFigures figures = this->figures();
  std::vector<double> numbers = {figures.wire.seconds_per_byte, figures.wire.seconds_per_message};
  for (const CodecFigures::Bucket& bucket : figures.buckets) {
    numbers.push_back(-bucket.early_seconds);
    for (const codec::Candidate& candidate : bucket.candidates) {
      numbers.push_back(static_cast<double>(candidate.bytes));
      numbers.push_back(static_cast<double>(candidate.messages));
      numbers.push_back(candidate.codec_seconds);
    }
  }
  TALLY_TRY(world.allreduce(std::span(numbers), ReduceOp::kMax));
  const double* next = numbers.data();
  figures.wire.seconds_per_byte = *next++;
  figures.wire.seconds_per_message = *next++;
  for (CodecFigures::Bucket& bucket : figures.buckets) {
    bucket.early_seconds = -*next++;
    for (codec::Candidate& candidate : bucket.candidates) {
      candidate.bytes = static_cast<std::size_t>(*next++);
      candidate.messages = static_cast<std::size_t>(*next++);
      candidate.codec_seconds = *next++;
    }
  }
  return figures;
}

AutoCodec::Outcome AutoCodec::outcome_of(std::size_t way) const {
  Outcome outcome;
  for (const std::size_t chosen : ways_[way].chosen) outcome.codecs.push_back(specs_[chosen]);
  return outcome;
}

Result<std::optional<AutoCodec::Outcome>> AutoCodec::next(Communicator& world) {
  const std::optional<Outcome> unchanged;
  if (is_measuring()) return unchanged;
  if (ways_.empty()) {
    TALLY_TRY(agreed_, agreed_figures(world));
    if (!options_.tries) {
      ways_ = {decide(agreed_)};
    } else {
      ways_ = finalists(agreed_, kMostTried);
      step_seconds_.resize(ways_.size(), kUnknown);
    }
  } else if (steps_of_way_ < kTrySteps) {
    return unchanged;
  }
  if (way_ + 1 == ways_.size()) {
    TALLY_TRY(Outcome outcome, choose(world));
    return std::optional(std::move(outcome));
  }
  steps_of_way_ = 0;
  return std::optional(outcome_of(++way_));
}

// Steps end together on all ranks: the longest time of all ranks is the time of a step.
Result<AutoCodec::Outcome> AutoCodec::choose(Communicator& world) {
  const auto text_of = [](double seconds) -> std::string {
    if (!std::isfinite(seconds)) return "an unknown time";
    return format_duration(std::chrono::microseconds(std::llround(seconds * 1e6)));
  };
  if (ways_.size() > 1) TALLY_TRY(world.allreduce(std::span(step_seconds_), ReduceOp::kMax));
  const std::size_t chosen = codec::fastest_of(step_seconds_);
  Outcome outcome = outcome_of(chosen);
  outcome.is_chosen = true;
  outcome.sentence = sentence_of(agreed_, ways_[chosen]);
  if (ways_.size() == 1) return outcome;
  outcome.sentence += fmt::format("; a step takes {}", text_of(step_seconds_[chosen]));
  for (std::size_t way = 0; way < ways_.size(); ++way)
    if (way != chosen)
      outcome.sentence +=
          fmt::format(", {} with {}", text_of(step_seconds_[way]), shares_of(agreed_, ways_[way]));
  return outcome;
}

}  // namespace tally::exchange
