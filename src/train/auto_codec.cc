#include "train/auto_codec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "codec/codec.h"
#include "train/codec_state.h"
#include "train/codec_trial.h"

namespace tally::train {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();
constexpr int kSmallProbes = 3;
constexpr std::size_t kSmallBytes = 8;
// What one member sends to all others; more than what switches let pass at once.
constexpr std::size_t kLargeBytes = std::size_t{1} << 20;

double seconds_between(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

void keep_least(std::optional<double>& least, double value) {
  least = std::min(least.value_or(kUnknown), value);
}

// Elements of a lane's part of a bucket that a codec would compress, and the longest of its runs.
struct Portion {
  std::size_t compressed = 0;
  std::size_t plain = 0;
  Range run;                  // in the bucket
  std::size_t parameter = 0;  // whose run it is
};

Portion portion_of(const plan::CodecSpec& spec, const std::vector<ParameterInfo>& parameters,
                   const BucketLayout& bucket, Range local) {
  Portion share;
  for (const BucketLayout::Entry& entry : bucket.entries) {
    const Range common{std::max(entry.range.begin, local.begin),
                       std::min(entry.range.end, local.end)};
    if (common.begin >= common.end) continue;
    const bool compressed =
        spec.kind != plan::Codec::kNone && is_compressed(spec, parameters[entry.parameter]);
    (compressed ? share.compressed : share.plain) += common.count();
    const std::size_t run = std::min(common.count(), codec::kRunElements);
    if (!compressed || run <= share.run.count()) continue;
    share.run = {common.begin, common.begin + run};
    share.parameter = entry.parameter;
  }
  return share;
}

plan::CodecSpec parsed(const std::string& text) {
  // The plan has checked its candidates.
  auto spec = plan::parse_codec(text);
  TALLY_CHECK(spec.has_value());
  // The optimizer has had the momentum in the steps before the choice, and keeps it.
  spec->early_momentum = false;
  return *std::move(spec);
}

}  // namespace

AutoCodec::AutoCodec(Options options)
    : options_(std::move(options)),
      ready_at_(options_.buckets.size()),
      early_(options_.buckets.size(), kUnknown) {
  TALLY_CHECK(options_.local.size() == options_.buckets.size());
  for (const std::string& text : codec::candidates_of(options_.spec))
    specs_.push_back(parsed(text));
  for (std::size_t b = 0; b < options_.buckets.size(); ++b) {
    costs_.emplace_back();
    for (std::size_t c = 0; c < specs_.size(); ++c) costs_[b].push_back(candidate_of(b, c));
  }
}

// As long as nothing is measured. Whoever owns 1/n of the elements sends the rest to the others, and its own back.
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

Result<void> AutoCodec::measure(Lane& lane, std::span<const std::span<const float>> gradients) {
  TALLY_CHECK(gradients.size() == costs_.size() && !is_done());
  if (!options_.wire) TALLY_TRY(probe(lane));
  const auto turn = static_cast<std::size_t>(steps_);
  for (std::size_t b = 0; b < costs_.size(); ++b)
    for (std::size_t c = 1 + turn; c < specs_.size(); c += kSteps) try_on(b, c, gradients[b]);
  ++steps_;
  return {};
}

// Large messages go twice: the first one takes what the wire lets pass at once after a pause.
Result<void> AutoCodec::probe(Lane& lane) {
  const auto members = static_cast<std::size_t>(lane.size());
  const auto exchange = [&](std::size_t bytes) -> Result<double> {
    Parcels out{.bytes = std::vector<std::byte>(bytes * members),
                .sizes = std::vector<std::size_t>(members, bytes)};
    const TimePoint begin = clock_.now();
    TALLY_TRY(lane.exchange(out, {.at_most = out.sizes, .exactly = true}, lane.memory().in));
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

void AutoCodec::try_on(std::size_t bucket, std::size_t candidate, std::span<const float> gradient) {
  const Range local = options_.local[bucket];
  const plan::CodecSpec& spec = specs_[candidate];
  const Portion share = portion_of(spec, options_.parameters, options_.buckets[bucket], local);
  if (share.compressed == 0) return;
  const std::span<const float> run =
      gradient.subspan(share.run.begin - local.begin, share.run.count());
  // Of nothing but zeros little can be learned.
  if (std::all_of(run.begin(), run.end(), [](float value) { return value == 0; })) return;
  const TrialCosts costs =
      try_codec({.spec = spec,
                 .shape = codec::shape_of(options_.parameters[share.parameter].shape),
                 .senders = options_.hosts,
                 .seed = options_.seed},
                run, clock_);
  const double runs = static_cast<double>(share.compressed) / static_cast<double>(run.size());
  const double others = (options_.hosts - 1.0) / options_.hosts;
  const double plain = 2.0 * sizeof(float) * static_cast<double>(share.plain);
  codec::Candidate& known = costs_[bucket][candidate];
  known.bytes =
      static_cast<std::size_t>(others * (runs * (costs.there_bytes + costs.back_bytes) + plain));
  // Sizes that differ are told first.
  known.messages = costs.fixed_size ? 2 : 4;
  known.codec_seconds = runs * costs.seconds;
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

Result<AutoCodec::Outcome> AutoCodec::agree(Communicator& world) const {
  TALLY_CHECK(is_done());
  CodecFigures figures = this->figures();
  // All numbers one behind the other. Of times before the end the shortest counts: the largest of their negatives.
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
  const CodecDecision decision = decide(figures);
  Outcome outcome{.sentence = sentence_of(figures, decision)};
  for (const std::size_t chosen : decision.chosen) {
    outcome.codecs.push_back(specs_[chosen]);
    outcome.all_plain = outcome.all_plain && chosen == 0;
  }
  return outcome;
}

}  // namespace tally::train
