#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "exchange/auto_codec/auto_codec.h"
#include "exchange/group/sharded_update.h"

// The part of ShardedUpdate for lanes that carry averages: codecs, their choice by codec=auto, and
// late updates.
//
// codec=auto: choose_codecs() runs after each update until the choice is final. use_codecs()
// rebuilds exchange_ with other codecs; keep_leftovers() saves the residuals of the old ones, and
// add_leftovers() adds them to the next gradients. If the final choice is no compression,
// leave_lanes() returns to sharded state.
//
// Late updates: begin_late() copies the learning rates and step counts. finish_late() waits for a
// bucket and updates it, when await() or settle() needs it.
namespace tally::exchange {

bool ShardedUpdate::can_be_late() {
  if (!options_.by_priority) return false;
  const char* obstacle = nullptr;
  if (tiers_.hosts == 1) obstacle = "there is one host";
  if (tiers_.locals() > 1) obstacle = "ranks share a host";
  if (options_.clip_norm) obstacle = "clip_norm needs all gradients at once";
  if (layerwise_) obstacle = "the optimizer needs all of a parameter at once";
  if (obstacle != nullptr && options_.on_event)
    options_.on_event(fmt::format("schedule=priority: it is fifo, for {}", obstacle));
  return obstacle == nullptr;
}

void ShardedUpdate::make_exchange() {
  const bool is_auto = options_.codec.kind == plan::Codec::kAuto;
  const plan::CodecSpec plain;
  LaneSchedule schedule{.by_priority = can_be_late_, .bytes_in_flight = options_.bytes_in_flight};
  std::vector<std::unique_ptr<BucketCodec>> codecs;
  std::vector<Range> local;
  for (std::size_t b = 0; b < buckets(); ++b) {
    const plan::CodecSpec& spec =
        !codecs_.empty() ? codecs_[b] : (is_auto ? plain : options_.codec);
    codecs.push_back(make_bucket_codec({.bucket = memory_->layout().buckets[b],
                                        .number = b,
                                        .local = works_[b].local,
                                        .parameters = options_.parameters,
                                        .spec = spec,
                                        .seed = options_.seed,
                                        .senders = senders_,
                                        .self = sender()}));
    schedule.bytes.push_back(works_[b].slice->gradient().size());
    local.push_back(works_[b].local);
  }
  LaneExchange::Lanes lanes{.there = std::make_unique<Lane>(tiers_.sums.get(), tiers_.lane),
                            .back = std::make_unique<Lane>(tiers_.values.get(), tiers_.lane)};
  exchange_ =
      std::make_unique<LaneExchange>(std::move(lanes), std::move(codecs), std::move(schedule));
  if (!is_auto || !codecs_.empty()) return;
  auto_ = std::make_unique<AutoCodec>(AutoCodec::Options{.spec = options_.codec,
                                                         .parameters = options_.parameters,
                                                         .buckets = memory_->layout().buckets,
                                                         .local = std::move(local),
                                                         .hosts = tiers_.hosts,
                                                         .seed = options_.seed,
                                                         .wire = options_.wire,
                                                         .tries = options_.tries_codecs,
                                                         .is_late = can_be_late_});
}

// Called after each update until the choice is final.
Result<void> ShardedUpdate::choose_codecs() {
  if (auto_->is_measuring()) TALLY_TRY(settle());
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

Result<void> ShardedUpdate::measure_codecs() {
  std::vector<std::span<const float>> gradients;
  for (std::size_t b = 0; b < buckets(); ++b) {
    const std::span<std::byte> bytes = works_[b].slice->gradient();
    const bool is_float64 = memory_->layout().buckets[b].type == DataType::kFloat64;
    gradients.emplace_back(reinterpret_cast<const float*>(bytes.data()),
                           is_float64 ? 0 : bytes.size() / sizeof(float));
  }
  return auto_->measure(exchange_->lane(), gradients);
}

// Uses codecs[b] for bucket b from the next step on.
Result<void> ShardedUpdate::use_codecs(std::vector<plan::CodecSpec> codecs, bool for_good) {
  const bool all_plain = std::all_of(codecs.begin(), codecs.end(), [](const plan::CodecSpec& spec) {
    return spec.kind == plan::Codec::kNone;
  });
  const std::vector<plan::CodecSpec> old =
      codecs_.empty() ? std::vector<plan::CodecSpec>(codecs.size()) : codecs_;
  codecs_ = std::move(codecs);
  // Late updates need lanes. Without them, hosts that update only their part have less work.
  const bool leaves = for_good && all_plain && !can_be_late_;
  if (codecs_ == old && !leaves) return {};
  TALLY_TRY(settle());
  keep_leftovers();
  if (leaves) {
    leave_lanes();
  } else {
    exchange_.reset();
    make_exchange();
  }
  return {};
}

// Saves the residuals of discarded codecs, to be added to the next gradients.
void ShardedUpdate::keep_leftovers() {
  for (const CodecState& state : exchange_->states()) {
    const bool is_back = state.name == "back";
    if (!is_back && state.name != "residual") continue;
    const Layout::Place& place = memory_->layout().place_of[state.parameter];
    Leftover leftover{.parameter = state.parameter,
                      .bucket = place.bucket,
                      .first = place.begin + state.first,
                      .values = {state.values.begin(), state.values.end()}};
    // The residual of a mean belongs to all hosts, and is added to the gradient of one of them.
    if (is_back)
      for (float& value : leftover.values) value *= static_cast<float>(tiers_.hosts);
    leftovers_.push_back(std::move(leftover));
  }
}

// `values` has the bucket's local range: this host's mean times `factor`.
void ShardedUpdate::add_leftovers(std::size_t bucket, double factor, bool totals_known,
                                  std::span<std::byte> values) {
  auto* const sum = reinterpret_cast<float*>(values.data());
  const auto is_due = [&](const Leftover& leftover) {
    return leftover.bucket == bucket && (!totals_known || used_[leftover.parameter] != 0);
  };
  for (const Leftover& leftover : leftovers_) {
    if (!is_due(leftover)) continue;
    float* const first = sum + (leftover.first - works_[bucket].local.begin);
    for (std::size_t i = 0; i < leftover.values.size(); ++i)
      first[i] += static_cast<float>(factor) * leftover.values[i];
  }
  leftovers_.erase(std::remove_if(leftovers_.begin(), leftovers_.end(), is_due), leftovers_.end());
}

// All hosts have the same state: each host keeps its part.
void ShardedUpdate::leave_lanes() {
  exchange_.reset();
  encodes_ = false;
  for (std::size_t b = 0; b < buckets(); ++b) {
    const std::unique_ptr<Slice> whole = std::move(works_[b].slice);
    plan_ranges(b);
    works_[b].slice = make_slice(b);
    const auto from = whole->states(works_[b].own);
    const auto to = works_[b].slice->states(works_[b].own);
    TALLY_CHECK(from.size() == to.size());
    for (std::size_t i = 0; i < from.size(); ++i)
      for (std::size_t k = 0; k < from[i].state.size(); ++k)
        std::copy(from[i].state[k].begin(), from[i].state[k].end(), to[i].state[k].begin());
  }
}

std::vector<CodecState> ShardedUpdate::codec_states() {
  make_state();
  // A run that resumes from a checkpoint chooses anew, so the residuals of auto are not saved.
  if (!exchange_ || options_.codec.kind == plan::Codec::kAuto) return {};
  settle_keeping_failure();
  return exchange_->states();
}

void ShardedUpdate::begin_late() {
  late_ = {.rates = rates_, .steps = steps_};
  late_.is_there.assign(works_.size(), false);
  late_.left = works_.size();
}

Result<void> ShardedUpdate::finish_late(std::size_t bucket) {
  if (late_.left == 0 || late_.is_there[bucket]) return {};
  const auto outcome =
      update_bucket(bucket, {.rates = late_.rates, .steps = late_.steps, .used = used_});
  if (!outcome) {
    failure_ = outcome.error();
    late_.left = 0;
    return outcome;
  }
  late_.is_there[bucket] = true;
  --late_.left;
  return {};
}

bool ShardedUpdate::is_late(std::size_t parameter) const {
  return late_.left > 0 && !late_.is_there[memory_->layout().place_of[parameter].bucket];
}

Result<void> ShardedUpdate::await(std::size_t parameter) {
  if (failure_) return *failure_;
  return finish_late(memory_->layout().place_of[parameter].bucket);
}

// In the order in which the next forward pass needs the buckets.
Result<void> ShardedUpdate::settle() {
  if (failure_) return *failure_;
  for (std::size_t b = works_.size(); b-- > 0;) TALLY_TRY(finish_late(b));
  return {};
}

void ShardedUpdate::settle_keeping_failure() {
  if (!settle().has_value()) TALLY_CHECK(failure_.has_value());
}

}  // namespace tally::exchange
