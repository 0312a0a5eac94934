#include "exchange/group/group_update.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "exchange/auto_codec/auto_codec.h"
#include "exchange/check_same.h"
#include "optimizer/update_rule.h"

namespace tally::exchange {
namespace {

std::vector<std::string> lines_of(const std::vector<ParameterInfo>& parameters) {
  std::vector<std::string> lines;
  for (const ParameterInfo& parameter : parameters) lines.push_back(to_string(parameter));
  return lines;
}

std::vector<std::string> settings_of(const GroupUpdate::Options& options) {
  const auto text = [](const std::optional<double>& limit) {
    return limit ? fmt::format("{}", *limit) : std::string("none");
  };
  std::vector<std::string> lines = {fmt::format("bucket_bytes {}", options.bucket_bytes),
                                    "clip_value " + text(options.clip_value),
                                    "clip_norm " + text(options.clip_norm)};
  for (const OptimizerSpec& spec : options.optimizers)
    lines.push_back("optimizer " + tally::to_string(spec));
  lines.push_back("codec " + plan::to_string(options.codec));
  if (options.codec.kind != plan::Codec::kNone)
    lines.push_back(fmt::format("seed of the codec {}", options.seed));
  if (options.discards_nonfinite) lines.push_back("discards gradients that are not finite");
  if (!options.beside) lines.push_back("in place");
  if (options.replicas == Replicas::kPerRank) lines.push_back("a replica per rank");
  lines.insert(lines.end(), options.settings.begin(), options.settings.end());
  return lines;
}

// Part `index` of `parts` about equal parts.
Range even_part(Range whole, int parts, int index) {
  const auto cut = [&](int part) {
    return whole.begin +
           whole.count() * static_cast<std::size_t>(part) / static_cast<std::size_t>(parts);
  };
  return {cut(index), cut(index + 1)};
}

constexpr auto kSetupTimeout = std::chrono::minutes(5);

// Whether gradients are encoded even on a single host.
bool encodes(const plan::CodecSpec& spec) {
  return spec.kind != plan::Codec::kNone && spec.kind != plan::Codec::kAuto;
}

}  // namespace

Result<void> check_same_models(Communicator& world, const GroupUpdate::Options& options,
                               Deadline by) {
  TALLY_TRY(check_same(world, {"models", "parameter", lines_of(options.parameters)}, by));
  return check_same(world, {"trainers", "setting", settings_of(options)}, by);
}

GroupUpdate::GroupUpdate(Communicator& world, Options options, Tiers tiers)
    : world_(world),
      options_(std::move(options)),
      tiers_(std::move(tiers)),
      layerwise_(
          std::any_of(options_.optimizers.begin(), options_.optimizers.end(),
                      [](const OptimizerSpec& spec) { return optimizer::is_layerwise(spec); })),
      senders_(options_.senders),
      steps_(options_.parameters.size()),
      used_(options_.parameters.size()),
      all_used_(options_.parameters.size(), 1) {
  for (const OptimizerSpec& spec : options_.optimizers) rates_.push_back(spec.rate);
  senders_.resize(options_.optimizers.size());
  for (codec::SenderFacts& facts : senders_) facts.ranks = tiers_.hosts;
  const bool is_auto = options_.codec.kind == plan::Codec::kAuto;
  const bool has_replica = options_.replicas == Replicas::kPerRank;
  if (tiers_.hosts > 1) across_ = is_auto || has_replica ? Across::kAverages : Across::kParts;
  if (encodes(options_.codec)) across_ = Across::kAverages;
  // auto may return to parts.
  agrees_first_ = options_.beside && !options_.in_background && tiers_.locals() == 1 &&
                  across_ != Across::kParts && !is_auto;
  memory_factory_ = tiers_.locals() == 1 ? ordinary_memory() : shared_memory(world_, tiers_);
  if (tiers_.hosts == 1 && is_auto && options_.on_event)
    options_.on_event("codec=auto: it is none, for there is one host");
}

GroupUpdate::~GroupUpdate() {
  pipeline_.reset();
  publishing_.reset();
  tiers_.sums.reset();
  tiers_.values.reset();
}

Result<std::unique_ptr<GroupUpdate>> GroupUpdate::make(Communicator& world, const Options& options,
                                                       Deadline by) {
  TALLY_TRY(check_same_models(world, options, by));
  const bool splits = encodes(options.codec) && options.replicas == Replicas::kPerHost;
  TALLY_TRY(Tiers tiers,
            find_tiers(world, splits ? Replicas::kPerHostIfSeveral : options.replicas, by));
  std::unique_ptr<GroupUpdate> update(new GroupUpdate(world, options, std::move(tiers)));
  std::vector<std::size_t> order(options.parameters.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  const auto used = update->use(update->layout_of(order), by);
  if (used) return update;
  update->abort(used.error());
  return used.error();
}

void GroupUpdate::abort(const Error& why) {
  for (Communicator* const lane : {tiers_.sums.get(), tiers_.values.get()})
    if (lane != nullptr) Lane(lane, tiers_.lane).abort(why);
}

Layout GroupUpdate::layout_of(std::span<const std::size_t> order) const {
  return make_layout(options_.parameters, order,
                     options_.bucket_bytes != 0 ? options_.bucket_bytes : kDefaultBucketBytes);
}

Result<void> GroupUpdate::use(Layout layout, Deadline by) {
  pipeline_.reset();
  auto_.reset();
  buckets_.clear();
  const int generations = options_.beside && !agrees_first_ ? 2 : 1;
  TALLY_TRY(memory_,
            ModelMemory::make(*memory_factory_, tiers_.local, std::move(layout), generations, by));
  make_buckets();
  return {};
}

void GroupUpdate::make_buckets() {
  buckets_.clear();
  buckets_.resize(memory_->layout().buckets.size());
  cells_ = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    plan_ranges(b);
    buckets_[b].gradients =
        std::make_unique<BucketAccumulator>(*memory_, b, tiers_.local, tiers_.locals());
    buckets_[b].first_cell = cells_;
    cells_ += Slice::cells_of(memory_->layout().buckets[b]);
  }
}

// The part of the host's gradients that a neighbour sums.
Range GroupUpdate::local_range(std::size_t b, int neighbour) const {
  const BucketLayout& layout = memory_->layout().buckets[b];
  const Share share{.parts = tiers_.locals(), .index = neighbour, .first = b};
  // powersgd needs whole parameters.
  return options_.codec.kind == plan::Codec::kPowersgd ? entries_of(layout, share)
                                                       : part_of({0, layout.count}, share);
}

Range GroupUpdate::range_of_host(Range local, int host) const {
  return across_ == Across::kAverages ? even_part(local, tiers_.hosts, host)
                                      : part_of(local, {.parts = tiers_.hosts, .index = host});
}

void GroupUpdate::plan_ranges(std::size_t b) {
  Bucket& bucket = buckets_[b];
  bucket.local = local_range(b, tiers_.local);
  bucket.own = range_of_host(bucket.local, tiers_.host);
  bucket.counts.clear();
  for (int host = 0; host < tiers_.hosts; ++host)
    bucket.counts.push_back(range_of_host(bucket.local, host).count());
}

// The bytes of a parameter in an array that holds its bucket at `bucket`.
std::span<std::byte> GroupUpdate::bytes_of(std::size_t parameter, std::byte* bucket) const {
  const ParameterInfo& info = options_.parameters[parameter];
  const std::size_t element = size_of(info.type);
  return {bucket + memory_->layout().place_of[parameter].begin * element, info.count() * element};
}

std::span<std::byte> GroupUpdate::values(std::size_t parameter, int generation) const {
  return bytes_of(parameter,
                  memory_->values(memory_->layout().place_of[parameter].bucket, generation));
}

std::span<std::byte> GroupUpdate::gradient(std::size_t parameter) const {
  return bytes_of(parameter, memory_->gradient_bucket(memory_->layout().place_of[parameter].bucket,
                                                      tiers_.local));
}

Result<void> GroupUpdate::spread_values(Deadline by) {
  // The first lane consists of the first rank of every host, with rank 0 as its first member.
  if (tiers_.hosts > 1 && tiers_.local == 0) {
    for (std::size_t b = 0; b < buckets(); ++b) {
      std::byte* const values = memory_->values(b, memory_->present());
      const auto sent = tiers_.values->run({.operation = Operation::kBroadcast,
                                            .input = values,
                                            .output = values,
                                            .count = memory_->layout().buckets[b].bytes(),
                                            .type = DataType::kUInt8,
                                            .root = 0,
                                            .by = by});
      if (!sent) return Lane(tiers_.values.get(), tiers_.lane).named(sent.error());
    }
  }
  return adopt_values(by);
}

Result<void> GroupUpdate::adopt_values(Deadline by) {
  TALLY_TRY(world_.barrier({.by = by}));
  for (Bucket& bucket : buckets_)
    if (bucket.slice) bucket.slice->adopt_values();
  return {};
}

Result<bool> GroupUpdate::reorder(std::vector<std::size_t>& order, Deadline by) {
  TALLY_CHECK(step_ == 1 && !begun_);
  std::vector<std::int64_t> first(order.begin(), order.end());
  TALLY_TRY(world_.broadcast(std::span(first), 0, {.by = by}));
  order.assign(first.begin(), first.end());
  Layout layout = layout_of(order);
  if (layout.buckets == memory_->layout().buckets) return false;
  former_ = std::move(memory_);
  const auto moved = move_to(std::move(layout), *former_, by);
  if (moved) return true;
  memory_ = std::move(former_);
  make_buckets();
  return moved.error();
}

// Returns when all neighbours have copied. A neighbour may still fail in that and stay in `from`.
Result<void> GroupUpdate::move_to(Layout layout, const ModelMemory& from, Deadline by) {
  TALLY_TRY(use(std::move(layout), by));
  for (std::size_t p = 0; p < options_.parameters.size(); ++p) {
    const Layout::Place& place = from.layout().place_of[p];
    const std::size_t offset = place.begin * size_of(options_.parameters[p].type);
    const std::span<std::byte> to = gradient(p);
    std::memcpy(to.data(), from.gradient_bucket(place.bucket, tiers_.local) + offset, to.size());
    if (writes_values())
      std::memcpy(values(p).data(), from.values(place.bucket, from.present()) + offset, to.size());
  }
  return world_.barrier({.by = by});
}

Slice::Options GroupUpdate::slice_options(std::size_t b, int neighbour) const {
  const Range local = local_range(b, neighbour);
  return {.memory = *memory_,
          .bucket = b,
          .neighbour = neighbour,
          .range = across_ == Across::kAverages ? local : range_of_host(local, tiers_.host),
          .parameters = options_.parameters,
          .optimizers = options_.optimizers,
          .apart = across_ == Across::kParts};
}

Result<void> GroupUpdate::make_slices() {
  ModelMemory::Needs needs(static_cast<std::size_t>(tiers_.locals()));
  for (int n = 0; n < tiers_.locals(); ++n)
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      needs[static_cast<std::size_t>(n)].push_back(Slice::needs(slice_options(b, n)));
  TALLY_TRY(memory_->make_state(*memory_factory_, std::move(needs),
                                deadline_after(now(), kSetupTimeout)));
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    buckets_[b].slice = Slice::make(slice_options(b, tiers_.local));
  return {};
}

std::size_t GroupUpdate::memory_bytes() const {
  std::size_t bytes = memory_->bytes();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const DataType type = memory_->layout().buckets[b].type;
    const std::size_t sum_bytes = type == DataType::kFloat64 ? sizeof(double) : sizeof(float);
    const Bucket& bucket = buckets_[b];
    if (across_ == Across::kParts)  // sums of the lane and of this rank's part, and new values
      bytes += bucket.local.count() * sum_bytes + bucket.own.count() * (sum_bytes + size_of(type));
    else if (is_deferred())
      bytes += bucket.local.count() * sum_bytes;
  }
  return bytes;
}

std::size_t GroupUpdate::state_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const StateArrays needs = Slice::needs(slice_options(b, tiers_.local));
    bytes += needs.count * needs.arrays * needs.element_bytes;
  }
  return bytes;
}

Result<void> GroupUpdate::make_state() {
  if (buckets_.empty() || buckets_.front().slice) return {};
  TALLY_TRY(make_slices());
  if (across_ != Across::kNowhere) make_pipeline();
  return {};
}

Result<std::vector<SliceState>> GroupUpdate::states() {
  TALLY_TRY(make_state());
  std::vector<SliceState> all;
  for (Bucket& bucket : buckets_) {
    auto states = bucket.slice->states(across_ == Across::kAverages ? bucket.local : bucket.own);
    std::move(states.begin(), states.end(), std::back_inserter(all));
  }
  return all;
}

Result<std::vector<SliceState>> GroupUpdate::saved_states() {
  TALLY_TRY(make_state());
  std::vector<SliceState> all;
  for (Bucket& bucket : buckets_) {
    auto states = bucket.slice->states(bucket.own);
    std::move(states.begin(), states.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace tally::exchange
