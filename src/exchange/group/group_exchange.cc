#include "exchange/group/group_exchange.h"

#include <algorithm>
#include <array>

#include "base/errors.h"
#include "base/stopwatch.h"
#include "exchange/state_names.h"

namespace tally::exchange {
namespace {

constexpr auto kGroupTimeout = std::chrono::minutes(5);
// The time limit for other ranks to offer enough gradients.
constexpr auto kOfferTimeout = std::chrono::minutes(5);

// Without backups every update waits for all ranks, as bsp does.
bool has_backups(const policy::Rules& rules) {
  return rules.update == plan::Update::kBackup && rules.needed < rules.workers;
}

}  // namespace

Result<std::unique_ptr<GroupExchange>> GroupExchange::make(Communicator& replicas, Options options,
                                                           Deadline by) {
  std::unique_ptr<GroupExchange> made(new GroupExchange(replicas, std::move(options)));
  TALLY_TRY(made->connect(by));
  if (replicas.rank() == 0)
    for (std::size_t p = 0; p < made->update_->parameters().size(); ++p)
      made->options_.initial(p, made->values(p));
  TALLY_TRY(made->update_->spread_values(by));
  made->order_is_settled_ = has_backups(made->options_.rules);
  return made;
}

// Makes the update on replicas_.
Result<void> GroupExchange::connect(Deadline by) {
  if (!has_backups(options_.rules)) {
    TALLY_TRY(update_, GroupUpdate::make(*replicas_, options_.update, by));
    return {};
  }
  GroupUpdate::Options update = options_.update;
  update.in_background = true;
  TALLY_TRY(own_world_, replicas_->split(0, replicas_->rank(), by));
  TALLY_TRY(update_, GroupUpdate::make(*own_world_, update, by));
  auto backup = BackupUpdate::make(*own_world_, *update_,
                                   {.rules = options_.rules, .pause = options_.pause}, by);
  if (!backup) {
    update_->abort(backup.error());
    return backup.error();
  }
  backup_ = std::move(*backup);
  return {};
}

Deadline GroupExchange::after(Duration timeout) const {
  const Clock* const clock = options_.update.clock;
  return clock != nullptr ? clock->after(timeout) : Deadline::after(timeout);
}

// The number of backups stays, as far as the remaining ranks allow it.
policy::Rules GroupExchange::rules_for(int workers) const {
  policy::Rules rules = options_.rules;
  const int backups = rules.workers - rules.needed;
  rules.workers = workers;
  rules.needed = rules.update == plan::Update::kSubset ? std::min(rules.needed, workers)
                                                       : std::max(1, workers - backups);
  return rules;
}

Result<void> GroupExchange::reform(Communicator& replicas) {
  const Deadline by = after(kGroupTimeout);
  Options options = options_;
  options.rules = rules_for(replicas.size());
  std::unique_ptr<GroupExchange> next(new GroupExchange(replicas, std::move(options)));
  TALLY_TRY(next->connect(by));
  // Some ranks may have failed in the first update, and others before it.
  std::int32_t is_ordered = order_is_settled_ && !backup_ ? 1 : 0;
  TALLY_TRY(replicas.allreduce(std::span(&is_ordered, 1), ReduceOp::kMax));
  if (is_ordered != 0) {
    complete_order();
    TALLY_TRY(next->update_->reorder(order_, by));
  }
  TALLY_TRY(const Continued continued, agree_on_update(replicas));
  const bool is_former = continued.number != number_;
  GroupUpdate& from = is_former ? *former_->update : *update_;
  // This rank may compute at an earlier version than the background has reached.
  const std::uint64_t reached = backup_ ? first_step_ + backup_->version() : update_->updates();
  const std::uint64_t known = from.updates();
  const auto taken = next->update_->take_over(from, by);
  // The update under way may count after all.
  const std::uint64_t moved = from.updates() - known;
  if (!taken) {
    if (backup_) {
      first_step_ += moved;
      follow({.version = backup_->version(), .generation = update_->present()});
    }
    return taken;
  }
  first_step_ = reached + moved;
  next->update_->set_updates(first_step_);
  version_ = 0;
  end_update();
  replicas_ = &replicas;
  options_ = next->options_;
  backup_ = std::move(next->backup_);
  if (!is_former)
    former_ = std::make_unique<Former>(Former{number_, std::move(own_world_), std::move(update_)});
  update_ = std::move(next->update_);
  own_world_ = std::move(next->own_world_);
  generation_ = update_->present();
  number_ = continued.next_number;
  return {};
}

// A rank that was lost in the last reform() may have let only some ranks end it. The ranks continue
// the newest update that all of them have.
Result<GroupExchange::Continued> GroupExchange::agree_on_update(Communicator& replicas) const {
  const std::array<std::int64_t, 2> own = {number_, former_ ? former_->number : number_};
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(replicas.size()));
  TALLY_TRY(replicas.allgather(std::span<const std::int64_t>(own), std::span(all)));
  const auto all_have = [&](std::int64_t number) {
    for (std::size_t i = 0; i < all.size(); i += own.size())
      if (all[i] != number && all[i + 1] != number) return false;
    return true;
  };
  const std::int64_t next_number = *std::max_element(all.begin(), all.end()) + 1;
  for (const std::int64_t number : own)
    if (all_have(number)) return Continued{.number = number, .next_number = next_number};
  return make_error(ErrorCode::kInvalid, "the ranks have no update in common");
}

GroupExchange::~GroupExchange() { backup_.reset(); }

bool GroupExchange::takes_part() const {
  return policy::takes_part(options_.rules, replicas_->rank(), steps());
}

// With backups the rank computes at the version that steps() has reported, even if there is a newer
// one. A rank that has reached the step of a meeting so does not wait for the gradients of others.
Result<StepChoice> GroupExchange::begin() {
  return StepChoice{.computes = takes_part(), .version = steps()};
}

// The first update only records the order of gradients. With backups the update decides about
// whole gradients.
Result<bool> GroupExchange::announce(const StepContribution& contribution) {
  if (backup_ || !order_is_settled_ || !takes_part()) return false;
  update_->set_rates(contribution.rates);
  TALLY_TRY(update_->begin(contribution));
  is_announced_ = true;
  return true;
}

Result<void> GroupExchange::ready(std::size_t parameter, const std::byte* elsewhere) {
  if (is_announced_) return update_->ready(parameter, elsewhere);
  const auto known = std::find_if(ready_.begin(), ready_.end(), [parameter](const auto& each) {
    return each.parameter == parameter;
  });
  if (known != ready_.end()) {
    known->elsewhere = elsewhere;
  } else {
    ready_.push_back({.parameter = parameter, .elsewhere = elsewhere});
  }
  return {};
}

// Buckets are rebuilt in the order in which gradients became ready. Unused parameters are last.
Result<void> GroupExchange::settle_order() {
  if (order_is_settled_) return {};
  complete_order();
  TALLY_TRY(update_->reorder(order_, after(kGroupTimeout)));
  return {};
}

void GroupExchange::complete_order() {
  order_is_settled_ = true;
  std::vector<std::uint8_t> has(update_->parameters().size());
  for (const std::size_t p : order_) has[p] = 1;
  for (std::size_t p = has.size(); p-- > 0;)
    if (has[p] == 0) order_.push_back(p);
}

void GroupExchange::end_update() {
  is_announced_ = false;
  ready_.clear();
}

Result<StepTotals> GroupExchange::complete_together(const StepContribution& contribution,
                                                    bool draining, double* drained) {
  update_->set_rates(contribution.rates);
  if (!order_is_settled_ && order_.empty())
    for (const auto& each : ready_) order_.push_back(each.parameter);
  TALLY_TRY(settle_order());
  for (const auto& each : ready_) TALLY_TRY(update_->ready(each.parameter, each.elsewhere));
  const bool counts = takes_part();
  const std::array<double, 2> sums = {counts ? contribution.loss_sum : 0, draining ? 1.0 : 0.0};
  TALLY_TRY(const UpdateTotals totals,
            update_->complete(counts ? contribution : StepContribution{}, sums));
  end_update();
  former_.reset();
  if (drained != nullptr) *drained = totals.sums[1];
  if (totals.samples == 0) return StepTotals{};
  if (totals.updated && counts && contribution.samples > 0) staleness_.add(0);
  return StepTotals{.samples = totals.samples,
                    .loss_sum = totals.sums[0],
                    .updated = totals.updated,
                    .discarded = !totals.updated};
}

void GroupExchange::follow(const BackupUpdate::Taken& taken) {
  version_ = taken.version;
  generation_ = taken.generation;
}

Result<StepTotals> GroupExchange::offer(const StepContribution& contribution) {
  const Stopwatch watch(waited_);
  TALLY_TRY(const BackupUpdate::Taken taken,
            backup_->exchange({.version = version_, .contribution = contribution, .ready = ready_},
                              after(kOfferTimeout)));
  end_update();
  if (taken.counted) staleness_.add(0);
  if (!taken.counted && contribution.samples > 0) ++dropped_;
  former_.reset();
  follow(taken);
  return StepTotals{.samples = taken.samples,
                    .loss_sum = taken.loss_sum,
                    .updated = taken.updated,
                    .discarded = taken.samples > 0 && !taken.updated};
}

Result<StepTotals> GroupExchange::complete(const StepContribution& contribution) {
  return backup_ ? offer(contribution) : complete_together(contribution, false, nullptr);
}

// Without backups the first update includes the gradients of an unfinished accumulation, if this
// rank takes part in it. With backups they are dropped.
Result<void> GroupExchange::drain(const StepContribution& rest) {
  if (backup_) {
    TALLY_TRY(const BackupUpdate::Taken taken, backup_->drain(after(kOfferTimeout)));
    end_update();
    --first_step_;  // the version that ends the drain has no update
    follow(taken);
    return {};
  }
  StepContribution contribution = rest;
  for (double drained = 0; drained < replicas_->size();) {
    TALLY_TRY(complete_together(contribution, true, &drained));
    contribution = {.rates = rest.rates};
  }
  return {};
}

Result<void> GroupExchange::sum(std::span<double> values) {
  if (values.empty()) return {};
  return replicas_->allreduce(values);
}

Result<void> GroupExchange::broadcast(std::span<std::byte> bytes) {
  if (replicas_->size() == 1 || bytes.empty()) return {};
  return replicas_->run({.operation = Operation::kBroadcast,
                         .input = bytes.data(),
                         .output = bytes.data(),
                         .count = bytes.size(),
                         .type = DataType::kUInt8,
                         .root = 0});
}

Result<void> GroupExchange::meet(std::span<double> values) {
  if (backup_) {
    auto farthest = static_cast<std::int64_t>(backup_->version());
    TALLY_TRY(replicas_->allreduce(std::span(&farthest, 1), ReduceOp::kMax));
    TALLY_TRY(const BackupUpdate::Taken taken,
              backup_->catch_up(static_cast<std::uint64_t>(farthest), after(kGroupTimeout)));
    follow(taken);
  }
  return sum(values);
}

// With backups the updates run in parallel to this rank: only its waiting counts.
Statistics GroupExchange::statistics() const {
  const UpdateTimes times = backup_ ? UpdateTimes{.wait = waited_} : update_->times();
  return {.update = times.update,
          .wait = times.wait,
          .staleness = staleness_,
          .dropped = dropped_,
          .memory_bytes = update_->memory_bytes(),
          .state_bytes = update_->state_bytes()};
}

SavedCourse GroupExchange::course() const {
  return {.steps = steps(), .order = order_, .parameter_steps = update_->steps()};
}

std::vector<CodecTensor> GroupExchange::codec_tensors() const {
  return exchange::codec_tensors(options_.update.codec, update_->parameters(), sender().of);
}

Result<void> GroupExchange::restore(const checkpoint::Reader& reader, const SavedCourse& course) {
  TALLY_TRY(update_->discard_step());
  end_update();
  // Before the first update there is no state, and the first update may still set the order.
  if (!order_is_settled_ && (course.steps > 0 || !course.order.empty())) {
    order_ = course.order;
    // A checkpoint of servers has no order: keep the one in which the buckets were made.
    if (order_.empty())
      for (std::size_t p = update_->parameters().size(); p-- > 0;) order_.push_back(p);
    TALLY_TRY(settle_order());
  }
  update_->steps() = course.parameter_steps;
  update_->set_updates(course.steps);
  first_step_ = course.steps - version_;
  TALLY_TRY(update_->make_state());
  // Neighbours may still use the values that the restore overwrites.
  TALLY_TRY(replicas_->barrier());
  const std::vector<ParameterInfo>& parameters = update_->parameters();
  if (update_->writes_values())
    for (std::size_t p = 0; p < parameters.size(); ++p)
      TALLY_TRY(reader.read(parameters[p].name, 0, update_->values(p)));
  TALLY_TRY(update_->adopt_values(after(kGroupTimeout)));
  TALLY_TRY(const std::vector<SliceState> states, update_->states());
  for (const SliceState& slice : states) {
    const ParameterInfo& info = parameters[slice.parameter];
    const auto names = state_names_of(info, options_.update.optimizers[info.group]);
    for (std::size_t k = 0; k < names.size(); ++k)
      TALLY_TRY(reader.read_state(info.name + "/" + names[k], slice.first, slice.state[k]));
  }
  TALLY_TRY(const std::vector<CodecState> codec, codec_states());
  return read_states(reader, parameters, codec, sender());
}

}  // namespace tally::exchange
