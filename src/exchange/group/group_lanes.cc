#include <algorithm>

#include "base/check.h"
#include "exchange/auto_codec/auto_codec.h"
#include "exchange/group/group_update.h"

// The part of GroupUpdate for lanes: codecs, and their choice by codec=auto.
//
// codec=auto: choose_codecs() runs after each update until the choice is final. use_codecs()
// rebuilds pipeline_ with other codecs; leftovers_ keeps the residuals of the old ones for the next
// gradients. If the final choice is no compression, leave_averages() returns to sharded state.
namespace tally::exchange {

void GroupUpdate::make_pipeline() {
  const bool is_auto = options_.codec.kind == plan::Codec::kAuto;
  const bool scatters = across_ == Across::kParts;
  const plan::CodecSpec plain;
  std::vector<std::unique_ptr<BucketCodec>> codecs;
  std::vector<Range> local;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const plan::CodecSpec& spec =
        !codecs_.empty() ? codecs_[b] : (is_auto ? plain : options_.codec);
    codecs.push_back(make_bucket_codec({.bucket = memory_->layout().buckets[b],
                                        .number = b,
                                        .local = buckets_[b].local,
                                        .parameters = options_.parameters,
                                        .spec = spec,
                                        .scatters = scatters,
                                        .seed = options_.seed,
                                        .senders = senders_,
                                        .self = sender()}));
    local.push_back(buckets_[b].local);
  }
  pipeline_.reset();
  publishing_ = std::make_unique<Lane>(tiers_.values.get(), tiers_.lane);
  pipeline_ = std::make_unique<LanePipeline>(
      LanePipeline::Lanes{.there = std::make_unique<Lane>(tiers_.sums.get(), tiers_.lane),
                          .back = std::make_unique<Lane>(tiers_.values.get(), tiers_.lane)},
      std::move(codecs));
  if (!is_auto || !codecs_.empty()) return;
  auto_ = std::make_unique<AutoCodec>(AutoCodec::Options{.spec = options_.codec,
                                                         .parameters = options_.parameters,
                                                         .buckets = memory_->layout().buckets,
                                                         .local = std::move(local),
                                                         .hosts = tiers_.hosts,
                                                         .seed = options_.seed,
                                                         .wire = options_.wire,
                                                         .tries = options_.tries_codecs});
}

// Called after each update until the choice is final.
Result<void> GroupUpdate::choose_codecs() {
  auto_->stepped();
  if (auto_->is_measuring()) TALLY_TRY(measure_codecs());
  TALLY_TRY(std::optional<AutoCodec::Outcome> outcome, auto_->next(world_));
  if (outcome) TALLY_TRY(use_codecs(std::move(outcome->codecs), outcome->is_chosen));
  if (!outcome || !outcome->is_chosen) {
    auto_->goes_on();
    return {};
  }
  auto_.reset();
  if (options_.on_event) options_.on_event(outcome->sentence);
  return {};
}

Result<void> GroupUpdate::measure_codecs() {
  std::vector<std::span<const float>> gradients;
  for (std::size_t b = 0; b < buckets(); ++b) {
    const std::span<std::byte> bytes = buckets_[b].slice->gradient();
    const bool is_float64 = memory_->layout().buckets[b].type == DataType::kFloat64;
    gradients.emplace_back(reinterpret_cast<const float*>(bytes.data()),
                           is_float64 ? 0 : bytes.size() / sizeof(float));
  }
  return auto_->measure(pipeline_->lane(), gradients);
}

// Uses codecs[b] for bucket b from the next step on.
Result<void> GroupUpdate::use_codecs(std::vector<plan::CodecSpec> codecs, bool for_good) {
  const bool all_plain = std::all_of(codecs.begin(), codecs.end(), [](const plan::CodecSpec& spec) {
    return spec.kind == plan::Codec::kNone;
  });
  const std::vector<plan::CodecSpec> old =
      codecs_.empty() ? std::vector<plan::CodecSpec>(codecs.size()) : codecs_;
  codecs_ = std::move(codecs);
  // Without averages each host updates only its part, and has less work.
  const bool leaves = for_good && all_plain && options_.replicas == Replicas::kPerHost;
  if (codecs_ == old && !leaves) return {};
  leftovers_.keep(pipeline_->states(), memory_->layout(), tiers_.hosts);
  if (leaves) TALLY_TRY(leave_averages());
  make_pipeline();
  return {};
}

// All hosts have the same state: each host keeps its part.
Result<void> GroupUpdate::leave_averages() {
  across_ = Across::kParts;
  std::vector<std::vector<std::vector<std::byte>>> kept;  // by piece, by array
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    plan_ranges(b);
    for (const SliceState& state : buckets_[b].slice->states(buckets_[b].own)) {
      kept.emplace_back();
      for (const std::span<std::byte> array : state.state)
        kept.back().emplace_back(array.begin(), array.end());
    }
  }
  TALLY_TRY(make_slices());
  TALLY_TRY(const std::vector<SliceState> states, saved_states());
  TALLY_CHECK(states.size() == kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i)
    for (std::size_t k = 0; k < kept[i].size(); ++k)
      std::copy(kept[i][k].begin(), kept[i][k].end(), states[i].state[k].begin());
  return {};
}

Result<std::vector<CodecState>> GroupUpdate::codec_states() {
  TALLY_TRY(make_state());
  // A run that resumes from a checkpoint chooses anew, so the residuals of auto are not saved.
  if (!pipeline_ || options_.codec.kind == plan::Codec::kAuto) return std::vector<CodecState>();
  return pipeline_->states();
}

}  // namespace tally::exchange
