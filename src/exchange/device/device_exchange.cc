#include "exchange/device/device_exchange.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/stopwatch.h"
#include "exchange/check_same.h"
#include "exchange/device/device_encoding.h"
#include "exchange/device/device_factors.h"
#include "exchange/device/device_step.h"
#include "exchange/state_names.h"

// One step of a DeviceExchange; device_update.cc has the update.
//
//   ready()      notes where a gradient lies. Several ranks: when a bucket has all its gradients,
//                and the buckets before it are started, gathers them into DeviceSum::own() and
//                starts the sum.
//   complete()   starts the remaining buckets, and waits until their sums are complete here.
//                agree() adds up samples, losses and the use of each parameter over all ranks;
//                when it returns, all ranks have their sums. apply() clips and updates in place.
//
// With a codec ready() gathers and encodes the mean of this rank's samples. A parameter without any
// gradient is not encoded, so agree() comes before the remaining buckets, and
// EncodedBuckets::finish() confirms that all ranks can make the update.
//
// A checkpoint does not block the step: states() begins to copy this rank's part of values and
// state from the device to pinned memory, beside forward and backward of the next step, and the
// thread that writes the files waits for the copy. An update follows the copy on the device.
namespace tally::exchange {
namespace {

constexpr auto kSetupTimeout = std::chrono::minutes(5);
constexpr auto kSumTimeout = std::chrono::minutes(5);

std::vector<UpdateLoop> loops_of(const std::vector<OptimizerSpec>& optimizers) {
  std::vector<UpdateLoop> loops;
  for (const OptimizerSpec& spec : optimizers)
    if (std::find(loops.begin(), loops.end(), loop_of(spec)) == loops.end())
      loops.push_back(loop_of(spec));
  return loops;
}

DataType sum_type(DataType type) {
  return type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32;
}

// Whether each rank finds the same error by itself, so that none waits for the others.
bool is_same_on_all_ranks(ErrorCode code) {
  return code == ErrorCode::kInvalid || code == ErrorCode::kMismatch;
}

}  // namespace

DeviceExchange::DeviceExchange(Communicator& replicas, Options options)
    : replicas_(&replicas),
      options_(std::move(options)),
      layerwise_(std::any_of(options_.update.optimizers.begin(), options_.update.optimizers.end(),
                             [](const auto& spec) { return optimizer::is_layerwise(spec); })),
      loops_(loops_of(options_.update.optimizers)),
      places_(parameters().size()),
      used_(parameters().size()),
      all_used_(parameters().size(), 1),
      steps_(parameters().size()) {
  // GroupUpdate's rule for one host; device_fit() leaves no other case.
  if (options_.update.codec.kind == plan::Codec::kAuto) options_.update.codec = {};
  options_.update.senders.resize(options_.update.optimizers.size());
}

Result<std::unique_ptr<DeviceExchange>> DeviceExchange::make(Communicator& replicas,
                                                             Options options, Deadline by) {
  if (options.shards_state) options.update.settings.emplace_back("sharded optimizer state");
  TALLY_TRY(check_same_models(replicas, options.update, by));
  std::unique_ptr<DeviceExchange> made(new DeviceExchange(replicas, std::move(options)));
  TALLY_TRY(made->ending(made->set_up(by)));
  return made;
}

Result<void> DeviceExchange::set_up(Deadline by) {
  std::vector<std::size_t> order(parameters().size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  TALLY_TRY(use_order(std::move(order)));
  TALLY_TRY(connect(by));
  return spread_values(by);
}

const OptimizerSpec& DeviceExchange::spec_of(std::size_t parameter) const {
  return options_.update.optimizers[parameters()[parameter].group];
}

Deadline DeviceExchange::after(Duration timeout) const {
  const Clock* const clock = options_.update.clock;
  return clock != nullptr ? clock->after(timeout) : Deadline::after(timeout);
}

// The other ranks do not see an error of this rank's device: without the abort they would wait for
// its sums. To them it is the loss of this rank.
void DeviceExchange::fail(const Error& error) {
  if (failure_ || is_same_on_all_ranks(error.code)) return;
  failure_ = error;
  if (replicas_->size() == 1) return;
  Error told = error;
  const Rank own = replicas_->rank();
  const bool is_own = error.code == ErrorCode::kSystem || error.code == ErrorCode::kExhausted;
  if (is_own && (error.peer == kNoRank || error.peer == own)) {
    told = make_error(ErrorCode::kPeerLost, own, "rank {}: {}", own, error.message);
  }
  // The others learn of it before engines end, which may take seconds.
  replicas_->abort(told);
  if (sum_) sum_->abort(told);
  if (encoding_) encoding_->abort(told);
  if (new_values_) new_values_->abort(told);
}

// Makes the model, and the tables of a step.
Result<void> DeviceExchange::use_order(std::vector<std::size_t> order) {
  Device& device = *options_.device;
  const std::size_t bytes = options_.update.bucket_bytes;
  Share share;
  if (options_.shards_state) share = {.parts = replicas_->size(), .index = replicas_->rank()};
  // The parameters are views of the model in use, which therefore stays until there is another one.
  TALLY_TRY(auto model,
            DeviceModel::make(device, {.parameters = parameters(),
                                       .optimizers = options_.update.optimizers,
                                       .order = order,
                                       .bucket_bytes = bytes != 0 ? bytes : kDefaultBucketBytes,
                                       .share = share}));
  encoding_.reset();
  model_ = std::move(model);
  order_ = std::move(order);
  first_piece_.clear();
  std::size_t pieces = 0;
  for (const BucketLayout& bucket : model_->layout().buckets) {
    first_piece_.push_back(pieces);
    pieces += bucket.entries.size();
  }
  pieces_.assign(pieces, {});
  TALLY_TRY(piece_table_, device.allocate(pieces * sizeof(DevicePiece)));
  TALLY_TRY(squares_, device.allocate(model_->cells() * sizeof(Squares)));
  const EncodedBuckets::Options coded{device, *model_, options_.update};
  if (options_.update.codec.kind == plan::Codec::kPowersgd) {
    TALLY_TRY(encoding_, DeviceFactors::make(coded));
  } else if (options_.update.codec.kind != plan::Codec::kNone) {
    TALLY_TRY(encoding_, DeviceEncoding::make(coded));
  }
  end_step();
  return {};
}

// Makes what depends on the other ranks.
Result<void> DeviceExchange::connect(Deadline by) {
  new_values_.reset();
  TALLY_TRY(make_sums(by));
  if (encoding_)
    TALLY_TRY(encoding_->connect(*replicas_, {options_.make_sum, options_.make_gather}, by));
  if (!is_sharded()) return {};
  std::vector<std::size_t> capacities;
  for (std::size_t b = 0; b < first_piece_.size(); ++b) {
    std::size_t most = 0;
    for (int rank = 0; rank < replicas_->size(); ++rank)
      most = std::max(most, model_->range_of(b, rank).count());
    capacities.push_back(std::max(most * size_of(model_->layout().buckets[b].type), sizeof(float)));
  }
  TALLY_TRY(new_values_, options_.make_gather(*replicas_, *options_.device, capacities, by));
  return {};
}

Result<void> DeviceExchange::make_sums(Deadline by) {
  sum_.reset();
  directions_.clear();
  sum_array_.clear();
  std::vector<DeviceSum::Array> arrays;
  for (std::size_t b = 0; b < first_piece_.size(); ++b) {
    const BucketLayout& layout = model_->layout().buckets[b];
    sum_array_.push_back(arrays.size());
    if (encoding_ && encoding_->encodes(b, 0)) continue;
    arrays.push_back({.type = sum_type(layout.type), .count = layout.count});
  }
  if (arrays.empty()) return {};
  if (replicas_->size() > 1) {
    TALLY_TRY(sum_, options_.make_sum(*replicas_, *options_.device, arrays, by));
  }
  for (std::size_t i = 0; is_lamb() && i < arrays.size(); ++i) {
    TALLY_TRY(DeviceMemory memory,
              options_.device->allocate(arrays[i].count * size_of(arrays[i].type)));
    directions_.push_back(std::move(memory));
  }
  return {};
}

Result<void> DeviceExchange::spread_values(Deadline by) {
  for (std::size_t p = 0; p < parameters().size(); ++p) {
    std::vector<std::byte> values(model_->values(p).size());
    if (replicas_->rank() == 0) options_.initial(p, values);
    if (replicas_->size() > 1 && !values.empty())
      TALLY_TRY(replicas_->run({.operation = Operation::kBroadcast,
                                .input = values.data(),
                                .output = values.data(),
                                .count = values.size(),
                                .type = DataType::kUInt8,
                                .root = 0,
                                .by = by}));
    TALLY_TRY(model_->write_values(p, values));
  }
  return {};
}

Result<bool> DeviceExchange::announce(const StepContribution& contribution) {
  if (failure_) return *failure_;
  is_announced_ = true;
  weight_ = contribution.weight;
  samples_ = contribution.samples;
  return replicas_->size() > 1;
}

Result<void> DeviceExchange::ready(std::size_t parameter, const std::byte* elsewhere) {
  if (failure_) return *failure_;
  return ending(take_gradient(parameter, elsewhere));
}

// Without samples a rank knows only after agree() whether a parameter is encoded. A rank that is
// alone starts nothing before complete(), so that a backward pass that throws leaves no trace.
Result<void> DeviceExchange::take_gradient(std::size_t parameter, const std::byte* place) {
  // A parameter without elements may have a gradient without an address.
  TALLY_CHECK(place != nullptr || parameters()[parameter].count() == 0);
  const std::size_t b = model_->layout().place_of[parameter].bucket;
  if (places_[parameter] == nullptr) --missing_[b];
  places_[parameter] = place != nullptr ? place : piece_table_.data;
  if (replicas_->size() == 1 || !is_announced_ || samples_ == 0) return {};
  const Stopwatch watch(updating_);
  while (started_ < missing_.size() && missing_[started_] == 0)
    TALLY_TRY(start_bucket(started_, all_used_));
  return {};
}

// Gathers this rank's part of the next bucket, and starts its sum or encodes it. A parameter
// without a gradient here counts as zero.
Result<void> DeviceExchange::start_bucket(std::size_t b, const std::vector<std::uint8_t>& used) {
  TALLY_CHECK(b == started_);
  ++started_;
  if (!encodes(b) && !sum_) return {};
  const BucketLayout& layout = model_->layout().buckets[b];
  for (std::size_t e = 0; e < layout.entries.size(); ++e) {
    const BucketLayout::Entry& entry = layout.entries[e];
    const std::byte* const place = weight_ == 0 ? nullptr : places_[entry.parameter];
    pieces_[first_piece_[b] + e] = {.first = entry.range.begin,
                                    .count = entry.range.count(),
                                    .gradient = place,
                                    .used = place != nullptr ? 1U : 0U};
  }
  DeviceBucket gathered = bucket(model_->bucket(b), b);
  if (!encodes(b)) gathered.sums = sum_->own(sum_array_[b]);
  const auto pieces = std::span(pieces_).subspan(first_piece_[b], layout.entries.size());
  TALLY_TRY(options_.device->post(piece_table_.data + first_piece_[b] * sizeof(DevicePiece),
                                  std::as_bytes(pieces)));
  if (!encodes(b)) {
    TALLY_TRY(options_.device->gather(gathered, {.factor = weight_}));
    return sum_->start(sum_array_[b]);
  }
  if (samples_ > 0) TALLY_TRY(options_.device->gather(gathered, {.factor = weight_ / samples_}));
  return encoding_->start(b, {.number = updates_, .used = used}, samples_);
}

Result<void> DeviceExchange::start_rest(const std::vector<std::uint8_t>& used) {
  const Stopwatch watch(updating_);
  while (started_ < missing_.size()) TALLY_TRY(start_bucket(started_, used));
  return {};
}

Result<StepTotals> DeviceExchange::complete(const StepContribution& contribution) {
  if (failure_) return *failure_;
  return ending(complete_step(contribution, false, nullptr));
}

Result<StepTotals> DeviceExchange::complete_step(const StepContribution& contribution,
                                                 bool draining, double* drained) {
  rates_ = contribution.rates;
  // Sums that are started have the announced weight. Gradients of ranks without samples are not
  // read.
  if (started_ == 0 || contribution.samples == 0) {
    weight_ = contribution.samples == 0 ? 0 : contribution.weight;
    samples_ = contribution.samples;
  }
  if (contribution.samples == 0) std::fill(places_.begin(), places_.end(), nullptr);
  if (!encoding_) {
    TALLY_TRY(start_rest(all_used_));
    TALLY_TRY(await_averages());
  }
  double all_drained = 0;
  TALLY_TRY(std::optional<StepTotals> totals, agree(contribution, draining, all_drained));
  if (drained != nullptr) *drained = all_drained;
  if (!totals) {
    end_step();
    return StepTotals{};
  }
  if (encoding_) {
    TALLY_TRY(start_rest(used_));
    TALLY_TRY(await_averages());
  }
  TALLY_TRY(totals->updated, apply(totals->samples));
  totals->discarded = !totals->updated;
  if (totals->updated) {
    for (std::size_t p = 0; p < steps_.size(); ++p) steps_[p] += used_[p];
    ++updates_;
    if (contribution.samples > 0) staleness_.add(0);
  }
  end_step();
  return *totals;
}

// Without a codec all ranks have the sums when agree() returns.
Result<void> DeviceExchange::await_averages() {
  const Stopwatch watch(waiting_);
  if (sum_) TALLY_TRY(sum_->finish(after(kSumTimeout)));
  if (!encoding_) return {};
  return encoding_->finish({.number = updates_, .used = used_}, all_samples_, after(kSumTimeout));
}

// Nothing if no rank has a sample.
Result<std::optional<StepTotals>> DeviceExchange::agree(const StepContribution& contribution,
                                                        bool draining, double& drained) {
  std::vector<double> sums = {contribution.samples, contribution.loss_sum, draining ? 1.0 : 0.0};
  constexpr std::size_t kFacts = 3;
  const auto ranks = static_cast<std::size_t>(replicas_->size());
  sums.resize(kFacts + ranks);
  sums[kFacts + static_cast<std::size_t>(replicas_->rank())] = contribution.samples;
  for (const std::byte* const place : places_) sums.push_back(place != nullptr ? 1 : 0);
  if (ranks > 1) {
    const Stopwatch watch(waiting_);
    TALLY_TRY(replicas_->allreduce(std::span(sums)));
  }
  drained = sums[2];
  const auto of_ranks = sums.begin() + kFacts;
  const auto of_parameters = of_ranks + static_cast<std::ptrdiff_t>(ranks);
  all_samples_.assign(of_ranks, of_parameters);
  for (std::size_t p = 0; p < used_.size(); ++p)
    used_[p] = of_parameters[static_cast<std::ptrdiff_t>(p)] > 0 ? 1 : 0;
  if (sums[0] == 0) return std::optional<StepTotals>();
  return std::optional(StepTotals{.samples = sums[0], .loss_sum = sums[1], .updated = false});
}

void DeviceExchange::end_step() {
  if (encoding_) encoding_->end_step();
  std::fill(places_.begin(), places_.end(), nullptr);
  missing_.clear();
  for (const BucketLayout& bucket : model_->layout().buckets)
    missing_.push_back(bucket.entries.size());
  started_ = 0;
  is_announced_ = false;
  weight_ = samples_ = 0;
}

Result<void> DeviceExchange::drain(const StepContribution& rest) {
  if (failure_) return *failure_;
  return ending(drain_steps(rest));
}

Result<void> DeviceExchange::drain_steps(const StepContribution& rest) {
  StepContribution contribution = rest;
  for (double drained = 0; drained < replicas_->size();) {
    TALLY_TRY(complete_step(contribution, true, &drained));
    contribution = {.rates = rest.rates};
  }
  return {};
}

Result<void> DeviceExchange::reform(Communicator& replicas) {
  if (is_sharded())
    return make_error(
        ErrorCode::kPeerLost,
        "the optimizer state is sharded over {} devices, and a lost rank had the only "
        "copy of its part: continue from a checkpoint",
        model_->share().parts);
  replicas_ = &replicas;
  failure_.reset();
  return ending(reform_on(replicas));
}

// A rank that was lost during the agreement about a step may have let only some ranks make the
// update. A rank that has made it gives the others its model. Codec state that is the same on all
// ranks must stay so, also if only some of them have the averages of a step that failed.
Result<void> DeviceExchange::reform_on(Communicator& replicas) {
  // They use the former communicator.
  sum_.reset();
  if (encoding_) encoding_->disconnect();
  const Deadline by = after(kSetupTimeout);
  const auto own = static_cast<std::int64_t>(updates_);
  std::vector<std::int64_t> all(static_cast<std::size_t>(replicas.size()));
  TALLY_TRY(replicas.allgather(std::span(&own, 1), std::span(all), {.by = by}));
  const auto newest = std::max_element(all.begin(), all.end());
  const auto root = static_cast<Rank>(newest - all.begin());
  if (*std::min_element(all.begin(), all.end()) < *newest) {
    TALLY_TRY(copy_model(replicas, root, by));
    if (encoding_ && own < *newest)
      TALLY_TRY(encoding_->catch_up({.number = updates_, .used = used_}));
    updates_ = static_cast<std::uint64_t>(*newest);
  }
  if (encoding_) TALLY_TRY(encoding_->spread_shared(replicas, root, by));
  end_step();
  return connect(by);
}

// The model of `root` becomes that of the ranks that are behind. It is complete before anything is
// overwritten.
Result<void> DeviceExchange::copy_model(Communicator& replicas, Rank root, Deadline by) {
  std::uint64_t version = updates_;
  TALLY_TRY(replicas.broadcast(std::span(reinterpret_cast<std::int64_t*>(&version), 1), root,
                               {.by = by}));
  DeviceModel::HostPart part = model_->room_for({});
  if (replicas.rank() == root) {
    TALLY_TRY(part, model_->read({}));
  }
  for (const std::span<std::byte> array : part.arrays)
    TALLY_TRY(replicas.run({.operation = Operation::kBroadcast,
                            .input = array.data(),
                            .output = array.data(),
                            .count = array.size(),
                            .type = DataType::kUInt8,
                            .root = root,
                            .by = by}));
  std::vector<std::int64_t> steps(steps_.begin(), steps_.end());
  TALLY_TRY(replicas.broadcast(std::span(steps), root, {.by = by}));
  if (updates_ == version) return {};
  TALLY_TRY(model_->write(part));
  steps_.assign(steps.begin(), steps.end());
  return {};
}

Result<void> DeviceExchange::sum(std::span<double> values) {
  if (values.empty() || replicas_->size() == 1) return {};
  return replicas_->allreduce(values);
}

Result<void> DeviceExchange::broadcast(std::span<std::byte> bytes) {
  if (replicas_->size() == 1 || bytes.empty()) return {};
  return replicas_->run({.operation = Operation::kBroadcast,
                         .input = bytes.data(),
                         .output = bytes.data(),
                         .count = bytes.size(),
                         .type = DataType::kUInt8,
                         .root = 0});
}

Statistics DeviceExchange::statistics() const {
  std::size_t directions = 0;
  for (const DeviceMemory& memory : directions_) directions += memory.bytes;
  return {.update = updating_,
          .wait = waiting_,
          .staleness = staleness_,
          .memory_bytes = model_->bytes() + piece_table_.bytes + squares_.bytes + directions +
                          (sum_ ? sum_->bytes() : 0) + (encoding_ ? encoding_->bytes() : 0) +
                          (new_values_ ? new_values_->bytes() : 0),
          .state_bytes = model_->state_bytes()};
}

Result<std::vector<SliceState>> DeviceExchange::states() {
  if (failure_) return *failure_;
  saved_.bytes.reset();
  auto begun = ending(model_->begin_read({.parts = replicas_->size(), .index = replicas_->rank()},
                                         std::move(saved_.part)));
  if (!begun) return begun.error();
  saved_ = std::move(*begun);
  return saved_.part.states;
}

std::vector<CodecTensor> DeviceExchange::codec_tensors() const {
  return exchange::codec_tensors(options_.update.codec, parameters(), replicas_->size());
}

Result<std::vector<CodecState>> DeviceExchange::codec_states() {
  if (!encoding_) return std::vector<CodecState>();
  if (failure_) return *failure_;
  auto state = ending(encoding_->read(sender()));
  if (!state) return state.error();
  saved_codec_ = std::move(*state);
  return saved_codec_.states;
}

SavedCourse DeviceExchange::course() const {
  return {.steps = updates_, .order = order_, .parameter_steps = steps_};
}

Result<void> DeviceExchange::restore(const checkpoint::Reader& reader, const SavedCourse& course) {
  if (failure_) return *failure_;
  return ending(restore_from(reader, course));
}

// Sums that are started on some ranks only would meet those of the next step.
Result<void> DeviceExchange::discard_step() {
  std::int32_t is_started = started_ > 0 ? 1 : 0;
  if (replicas_->size() > 1)
    TALLY_TRY(replicas_->allreduce(std::span(&is_started, 1), ReduceOp::kMax));
  if (is_started != 0 && replicas_->size() > 1)
    return make_error(ErrorCode::kInvalid,
                      "a step that has failed has sent gradients: start the job again");
  end_step();
  return {};
}

// All ranks read all values. State and master copies are read for this rank's share.
Result<void> DeviceExchange::restore_from(const checkpoint::Reader& reader,
                                          const SavedCourse& course) {
  TALLY_TRY(discard_step());
  if (!course.order.empty() && course.order != order_) {
    TALLY_TRY(use_order(course.order));
    TALLY_TRY(connect(after(kSetupTimeout)));
  }
  for (std::size_t p = 0; p < parameters().size() && is_sharded(); ++p) {
    std::vector<std::byte> values(model_->values(p).size());
    TALLY_TRY(reader.read(parameters()[p].name, 0, values));
    TALLY_TRY(model_->replace_values(p, values));
  }
  const DeviceModel::HostPart part = model_->room_for(model_->share());
  for (const SliceState& slice : part.states) {
    const ParameterInfo& info = parameters()[slice.parameter];
    TALLY_TRY(reader.read(info.name, slice.first, slice.values));
    const auto names = state_names_of(info, spec_of(slice.parameter));
    for (std::size_t k = 0; k < names.size(); ++k)
      TALLY_TRY(reader.read_state(info.name + "/" + names[k], slice.first, slice.state[k]));
  }
  TALLY_TRY(model_->write(part));
  steps_ = course.parameter_steps;
  updates_ = course.steps;
  if (!encoding_) return {};
  TALLY_TRY(const EncodedBuckets::HostState codec, encoding_->read(sender()));
  TALLY_TRY(read_states(reader, parameters(), codec.states, sender()));
  return encoding_->write(codec);
}

}  // namespace tally::exchange
