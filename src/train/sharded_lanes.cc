#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/stopwatch.h"
#include "train/sharded_update.h"

// What a ShardedUpdate does with lanes on which averages travel: codecs, their choice, and updates that are late.
namespace tally::train {

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
                                                         .wire = options_.wire});
}

// After each of the first updates.
Result<void> ShardedUpdate::choose_codecs() {
  TALLY_TRY(settle());
  std::vector<std::span<const float>> gradients;
  for (std::size_t b = 0; b < buckets(); ++b) {
    const std::span<std::byte> bytes = works_[b].slice->gradient();
    const bool is_float64 = memory_->layout().buckets[b].type == DataType::kFloat64;
    gradients.emplace_back(reinterpret_cast<const float*>(bytes.data()),
                           is_float64 ? 0 : bytes.size() / sizeof(float));
  }
  TALLY_TRY(auto_->measure(exchange_->lane(), gradients));
  if (!auto_->is_done()) return {};
  TALLY_TRY(AutoCodec::Outcome outcome, auto_->agree(world_));
  auto_.reset();
  codecs_ = std::move(outcome.codecs);
  // Late updates need lanes; without, hosts that update only their part have less to do.
  if (outcome.all_plain && !can_be_late_) {
    leave_lanes();
  } else if (!outcome.all_plain) {
    exchange_.reset();
    make_exchange();
  }
  if (options_.on_event) options_.on_event(outcome.sentence);
  return {};
}

// All hosts have the same state: each keeps its part.
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
  // A choice is made anew by whoever goes on from a checkpoint: what its codecs have left out is not kept.
  if (!exchange_ || options_.codec.kind == plan::Codec::kAuto) return {};
  [[maybe_unused]] const auto outcome = settle();
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

// Those first that come first.
Result<void> ShardedUpdate::settle() {
  if (failure_) return *failure_;
  for (std::size_t b = works_.size(); b-- > 0;) TALLY_TRY(finish_late(b));
  return {};
}

}  // namespace tally::train
