#include "exchange/group/sharded_update.h"

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

std::vector<std::string> settings_of(const ShardedUpdate::Options& options) {
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
  if (options.by_priority)
    lines.push_back(fmt::format("bytes in flight {}", options.bytes_in_flight));
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

// Whether gradients are encoded even on a single host.
bool encodes(const plan::CodecSpec& spec) {
  return spec.kind != plan::Codec::kNone && spec.kind != plan::Codec::kAuto;
}

}  // namespace

ShardedUpdate::ShardedUpdate(Communicator& world, Options options, Tiers tiers)
    : world_(world),
      options_(std::move(options)),
      tiers_(std::move(tiers)),
      layerwise_(
          std::any_of(options_.optimizers.begin(), options_.optimizers.end(),
                      [](const OptimizerSpec& spec) { return optimizer::is_layerwise(spec); })),
      encodes_(encodes(options_.codec)),
      can_be_late_(can_be_late()),
      senders_(options_.senders),
      steps_(options_.parameters.size()),
      is_ready_(options_.parameters.size()),
      used_(options_.parameters.size()),
      all_used_(options_.parameters.size(), 1),
      sources_(static_cast<std::size_t>(tiers_.locals())),
      weights_(static_cast<std::size_t>(tiers_.locals())) {
  for (const OptimizerSpec& spec : options_.optimizers) rates_.push_back(spec.rate);
  senders_.resize(options_.optimizers.size());
  for (codec::SenderFacts& facts : senders_) facts.ranks = tiers_.hosts;
  const bool is_auto = options_.codec.kind == plan::Codec::kAuto;
  if (tiers_.hosts > 1 && (is_auto || can_be_late_)) encodes_ = true;
  if (tiers_.hosts == 1 && is_auto && options_.on_event)
    options_.on_event("codec=auto: it is none, for there is one host");
}

ShardedUpdate::~ShardedUpdate() {
  // The values outlive this object: settle them to those of the last update, unless it fails.
  settle_keeping_failure();
  exchange_.reset();
  tiers_.sums.reset();
  tiers_.values.reset();
}

Result<std::unique_ptr<ShardedUpdate>> ShardedUpdate::make(Communicator& world,
                                                           const Options& options, Deadline by) {
  TALLY_TRY(check_same(world, {"models", "parameter", lines_of(options.parameters)}, by));
  TALLY_TRY(check_same(world, {"trainers", "setting", settings_of(options)}, by));
  TALLY_TRY(
      Tiers tiers,
      find_tiers(world, encodes(options.codec) ? SingleHost::kApart : SingleHost::kTogether, by));
  std::unique_ptr<ShardedUpdate> update(new ShardedUpdate(world, options, std::move(tiers)));
  std::vector<std::size_t> order(options.parameters.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  TALLY_TRY(update->use(update->layout_of(order), by));
  return update;
}

Layout ShardedUpdate::layout_of(std::span<const std::size_t> order) const {
  return make_layout(options_.parameters, order,
                     options_.bucket_bytes != 0 ? options_.bucket_bytes : kDefaultBucketBytes);
}

Result<void> ShardedUpdate::use(Layout layout, Deadline by) {
  TALLY_TRY(memory_, ModelMemory::make(world_, tiers_, std::move(layout), by));
  plan_work();
  return {};
}

void ShardedUpdate::plan_work() {
  exchange_.reset();
  auto_.reset();
  works_.clear();
  works_.resize(buckets());
  cells_ = 0;
  for (std::size_t b = 0; b < buckets(); ++b) {
    plan_ranges(b);
    const BucketLayout& bucket = memory_->layout().buckets[b];
    works_[b].pending = bucket.entries.size();
    works_[b].first_cell = cells_;
    cells_ += Slice::cells_of(bucket);
  }
}

void ShardedUpdate::plan_ranges(std::size_t b) {
  const BucketLayout& bucket = memory_->layout().buckets[b];
  Work& work = works_[b];
  const Share share{.parts = tiers_.locals(), .index = tiers_.local, .first = b};
  // powersgd needs whole parameters.
  work.local = options_.codec.kind == plan::Codec::kPowersgd ? entries_of(bucket, share)
                                                             : part_of({0, bucket.count}, share);
  work.counts.clear();
  for (int host = 0; host < tiers_.hosts; ++host) {
    const Range part = encodes_ ? even_part(work.local, tiers_.hosts, host)
                                : part_of(work.local, {.parts = tiers_.hosts, .index = host});
    work.counts.push_back(part.count());
    if (host == tiers_.host) work.own = part;
  }
}

// The bytes of a parameter in an array that holds its bucket at `bucket`.
std::span<std::byte> ShardedUpdate::bytes_of(std::size_t parameter, std::byte* bucket) const {
  const ParameterInfo& info = options_.parameters[parameter];
  const std::size_t element = size_of(info.type);
  return {bucket + memory_->layout().place_of[parameter].begin * element, info.count() * element};
}

std::span<std::byte> ShardedUpdate::values(std::size_t parameter) const {
  return bytes_of(parameter, memory_->values(memory_->layout().place_of[parameter].bucket));
}

std::span<std::byte> ShardedUpdate::gradient(std::size_t parameter) const {
  return bytes_of(parameter,
                  memory_->gradients(memory_->layout().place_of[parameter].bucket, tiers_.local));
}

Result<void> ShardedUpdate::spread_values(Deadline by) {
  TALLY_TRY(settle());
  // The first lane consists of the first rank of every host, with rank 0 as its first member.
  if (tiers_.hosts > 1 && tiers_.local == 0) {
    for (std::size_t b = 0; b < buckets(); ++b) {
      TALLY_TRY(tiers_.values->run({.operation = Operation::kBroadcast,
                                    .input = memory_->values(b),
                                    .output = memory_->values(b),
                                    .count = memory_->layout().buckets[b].bytes(),
                                    .type = DataType::kUInt8,
                                    .root = 0,
                                    .by = by}));
    }
  }
  return adopt_values(by);
}

Result<void> ShardedUpdate::adopt_values(Deadline by) {
  TALLY_TRY(settle());
  TALLY_TRY(world_.barrier({.by = by}));
  for (Work& work : works_)
    if (work.slice) work.slice->adopt_values();
  return {};
}

Result<bool> ShardedUpdate::reorder(std::vector<std::size_t>& order, Deadline by) {
  TALLY_CHECK(step_ == 1 && !begun_);
  std::vector<std::int64_t> first(order.begin(), order.end());
  TALLY_TRY(world_.broadcast(std::span(first), 0, {.by = by}));
  order.assign(first.begin(), first.end());
  Layout layout = layout_of(order);
  if (layout.buckets == memory_->layout().buckets) return false;
  const std::unique_ptr<ModelMemory> old = std::move(memory_);
  TALLY_TRY(use(std::move(layout), by));
  for (std::size_t p = 0; p < options_.parameters.size(); ++p) {
    const Layout::Place& place = old->layout().place_of[p];
    const std::size_t offset = place.begin * size_of(options_.parameters[p].type);
    const std::span<std::byte> to = gradient(p);
    std::memcpy(to.data(), old->gradients(place.bucket, tiers_.local) + offset, to.size());
    if (writes_values())
      std::memcpy(values(p).data(), old->values(place.bucket) + offset, to.size());
  }
  TALLY_TRY(world_.barrier({.by = by}));
  old->all_have_left();
  return true;
}

std::unique_ptr<Slice> ShardedUpdate::make_slice(std::size_t b) {
  return Slice::make({.bucket = memory_->layout().buckets[b],
                      .range = encodes_ ? works_[b].local : works_[b].own,
                      .parameters = options_.parameters,
                      .optimizers = options_.optimizers,
                      .values = memory_->values(b),
                      .apart = tiers_.hosts > 1 && !encodes_});
}

void ShardedUpdate::make_state() {
  for (std::size_t b = 0; b < buckets(); ++b)
    if (!works_[b].slice) works_[b].slice = make_slice(b);
  if (encodes_ && !exchange_) make_exchange();
}

std::vector<SliceState> ShardedUpdate::states() {
  settle_keeping_failure();
  make_state();
  std::vector<SliceState> all;
  for (Work& work : works_) {
    auto states = work.slice->states(encodes_ ? work.local : work.own);
    std::move(states.begin(), states.end(), std::back_inserter(all));
  }
  return all;
}

std::vector<SliceState> ShardedUpdate::saved_states() {
  settle_keeping_failure();
  make_state();
  std::vector<SliceState> all;
  for (Work& work : works_) {
    auto states = work.slice->states(work.own);
    std::move(states.begin(), states.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace tally::exchange
