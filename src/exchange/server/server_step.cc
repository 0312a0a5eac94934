#include "exchange/server/server_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "kernel/array/weighted_sum.h"
#include "optimizer/update_rule.h"

namespace tally::exchange {
namespace {

// into = a * one + b * other
void combine(DataType type, double a, std::span<const std::byte> one, double b,
             std::span<const std::byte> other, std::span<std::byte> into) {
  const std::array<const void*, 2> inputs = {one.data(), other.data()};
  RealSpan{.type = type, .bytes = into}.visit([&]<typename T>(std::span<T> values) {
    const std::array<T, 2> weights = {static_cast<T>(a), static_cast<T>(b)};
    kernel::weighted_sum(type, inputs, std::span<const T>(weights), values.data(), values.size());
  });
}

// Whether all optimizers are sgd without state. Senders that apply the momentum of sgd make the
// optimizer on servers look stateless.
bool is_plain(const ServerTables::Options& options) {
  const bool senders_move =
      std::any_of(options.senders.begin(), options.senders.end(),
                  [](const codec::SenderFacts& facts) { return facts.momentum > 0; });
  if (options.codec.kind == plan::Codec::kDgc || senders_move) return false;
  return std::all_of(
      options.optimizers.begin(), options.optimizers.end(), [](const OptimizerSpec& spec) {
        return spec.kind == OptimizerKind::kSgd && optimizer::state_arrays(spec) == 0;
      });
}

// Whether clipping acts on mean gradients, on the servers. onebit-adam pushes momentum, so that
// each worker clips its own gradient.
bool clips_means(const ServerTables::Options& options) {
  return options.measured && options.codec.kind != plan::Codec::kOnebitAdam;
}

bool is_finite(std::span<const RealSpan> gradient) {
  double squares = 0;
  for (const RealSpan& run : gradient) squares += square_sum(run);
  return std::isfinite(squares);
}

}  // namespace

ServerStep::ServerStep(ServerWorker& worker, const Options& options)
    : worker_(worker),
      clip_(clips_means(worker.tables().options()) ? ClipLimits() : options.clip),
      discards_nonfinite_(options.discards_nonfinite),
      rows_(options.rows),
      is_plain_(is_plain(worker.tables().options())),
      rooms_(worker),
      requests_(worker, rooms_),
      norms_(worker, {.clip_norm =
                          clips_means(worker.tables().options()) ? options.clip.norm : std::nullopt,
                      .discards_nonfinite = options.discards_nonfinite}),
      is_ready_(worker.tables().places().size()),
      is_told_(is_ready_.size()) {}

std::size_t ServerStep::memory_bytes() const {
  std::size_t bytes = rooms_.count() * worker_.tables().bytes();
  for (const OwnState& state : own_)
    for (const std::vector<std::byte>& array : state.arrays) bytes += array.size();
  return bytes;
}

Result<StepChoice> ServerStep::begin() {
  if (!has_chosen_) {
    choice_ = policy::next_step(worker_.rules(), worker_.clock(), /*is_last=*/false);
    // ssp: a worker whose own copy only approximates the servers' values pulls the new ones. asp:
    // the plan asks for an own copy (fetch=).
    if (!choice_.pull && !is_plain_ && worker_.rules().update == plan::Update::kSsp) {
      choice_.pull = true;
      choice_.apply_locally = false;
      choice_.one_request = choice_.push;
    }
    TALLY_TRY(room_, rooms_.take());
    requests_.begin(choice_, *room_);
    has_chosen_ = true;
  }
  return StepChoice{.computes = choice_.takes_part, .version = worker_.clock().version};
}

Result<bool> ServerStep::announce(const StepContribution& own) {
  TALLY_TRY(begin());
  const bool checks_own = clip_.any() || (discards_nonfinite_ && !is_measured());
  const bool is_final = !checks_own && !kept_ && own.weight == own.samples && own.samples > 0;
  if (!is_final || !choice_.push || is_too_late()) return false;
  announced_ = true;
  contribution_ = own;
  requests_.set_contribution(own);
  return true;
}

bool ServerStep::is_too_late() const {
  return policy::is_too_late(worker_.rules(), worker_.clock(), worker_.newest_version(),
                             requests_.has_pushed());
}

void ServerStep::ready(std::size_t parameter) {
  is_ready_[parameter] = true;
  if (!announced_ || is_told_[parameter]) return;
  is_told_[parameter] = true;
  requests_.ready(parameter);
}

std::span<std::byte> ServerStep::gradient(std::size_t parameter) const {
  TALLY_CHECK(room_ != nullptr);
  const std::size_t table = worker_.tables().places()[parameter].table;
  return worker_.tables().bytes_of(parameter, room_->flat[table]);
}

Result<StepTotals> ServerStep::complete(const StepContribution& given) {
  TALLY_TRY(begin());
  Result<StepTotals> totals = update(given);
  if (totals.has_value()) {
    renew();
  } else {
    // No late answer may write into a later version.
    requests_.give_up();
    requests_.begin(choice_, *room_);
  }
  return totals;
}

// Writes the next version of the values, and commits it after the last call that can fail.
Result<StepTotals> ServerStep::update(const StepContribution& given) {
  const policy::Rules& rules = worker_.rules();
  bool has = choice_.takes_part && given.samples > 0;
  bool pushes = choice_.push && (has || rules.has_rounds());
  if (pushes && has && is_too_late()) {
    pushes = false;
    ++worker_.figures.dropped;
  }
  contribution_ = given;
  if (!has) contribution_.samples = contribution_.weight = contribution_.loss_sum = 0;
  if (rows_ != nullptr) room_->rows = rows_->take();
  const bool had = has;
  if (has || pushes) has = finish_gradient(has);
  const bool is_own_discarded = had && !has;
  requests_.set_contribution(contribution_);
  if (!has && !rules.has_rounds()) pushes = false;
  if (pushes) requests_.push_rest();
  // The gradients of rows are not summed over steps: they are pushed in every step.
  if (pushes || (has && !choice_.push)) requests_.push_rows();
  if (!pushes && rules.update == plan::Update::kSsp) TALLY_TRY(worker_.tell_clock(choice_.clock));
  const bool with_push = pushes && choice_.one_request;
  if (choice_.pull) requests_.pull(with_push);
  if (pushes) TALLY_TRY(requests_.push_low_rank());
  RoundNorms::Finished finished;
  if (is_measured()) {
    TALLY_TRY(finished, norms_.finish(choice_.version));
  }
  TALLY_TRY(const Reading reading, requests_.await());
  const bool waits = choice_.wait_for_push || !worker_.tables().sparse().empty();
  if (pushes && waits && !rules.counts_gradients()) TALLY_TRY(rooms_.settle(*room_));
  if (choice_.pull) requests_.apply(finished.tables);
  if (choice_.pull || (choice_.apply_locally && has)) worker_.tables().commit();
  worker_.after_step(choice_, reading);
  if (is_own_discarded)
    return StepTotals{.samples = given.samples, .loss_sum = given.loss_sum, .discarded = true};
  return StepTotals{.samples = contribution_.samples,
                    .loss_sum = contribution_.loss_sum,
                    .updated = !finished.discarded && (has || rules.has_rounds()),
                    .discarded = finished.discarded};
}

// Makes the mean over this worker's samples, clips it, and adds the sum of earlier steps. A missing
// gradient counts as zero. Returns whether there is a gradient: one that is not finite may be
// discarded. The push of a round then has zeros without weight.
bool ServerStep::finish_gradient(bool has_gradient) {
  for (std::size_t p = 0; p < is_ready_.size(); ++p)
    if (!is_ready_[p]) {
      const std::span<std::byte> bytes = gradient(p);
      std::memset(bytes.data(), 0, bytes.size());
    }
  if (!announced_) {
    const std::vector<RealSpan> all = room_->all(worker_.tables());
    const StepContribution& own = contribution_;
    if (own.samples > 0 && own.weight != own.samples) scale(all, own.weight / own.samples);
    if (has_gradient && discards_nonfinite_ && !is_measured() && !is_finite(all)) {
      for (const RealSpan& run : all) std::memset(run.bytes.data(), 0, run.bytes.size());
      contribution_.samples = 0;
      return false;
    }
    clip(all, clip_);
  }
  if (!has_gradient) return false;
  if (choice_.apply_locally) move_own_copy();
  if (!choice_.push) {
    keep_gradient();
  } else if (kept_) {
    add_kept();
  }
  return true;
}

// Makes the next version of the own copy about as servers do with a single gradient: exactly as
// they do with plain sgd and one worker. Other optimizers have a state of their own here, which
// sees this worker's gradients alone. The next pull includes the gradients of other workers.
void ServerStep::move_own_copy() {
  const policy::Rules& rules = worker_.rules();
  const auto late = static_cast<std::uint64_t>(rules.workers - 1);
  own_.resize(room_->flat.size());
  for (std::size_t t = 0; t < room_->flat.size(); ++t) {
    const ServerTables::Table& table = worker_.tables().all()[t];
    OwnState& own = own_[t];
    const policy::OptimizerInTurns in_turns =
        policy::in_turns(rules, worker_.tables().options().optimizers[table.group], rules.workers);
    const OptimizerSpec& spec = in_turns.spec;
    const double factor = in_turns.gain * policy::rate_factor(rules, 1.0 / rules.workers, late,
                                                              optimizer::share_power(spec));
    std::memcpy(table.next.data(), table.values.data(), table.values.size());
    RealSpan{.type = table.type, .bytes = table.next}.visit([&]<typename T>(std::span<T> next) {
      const auto arrays = static_cast<std::size_t>(optimizer::state_arrays(spec));
      while (own.arrays.size() < arrays) {
        std::vector<std::byte>& array = own.arrays.emplace_back(next.size_bytes());
        const std::span<T> values = elements_of<T>(array);
        std::fill(values.begin(), values.end(), static_cast<T>(optimizer::initial_state(spec)));
      }
      std::vector<T> gradient(next.size());
      std::memcpy(gradient.data(), room_->flat[t].data(), next.size_bytes());
      optimizer::Segment<T> segment{.parameters = next, .gradient = gradient, .state = {}};
      for (std::size_t k = 0; k < arrays; ++k) segment.state[k] = elements_of<T>(own.arrays[k]);
      optimizer::update(
          spec, {.step = ++own.steps, .rate = contribution_.rates[table.group] * factor}, segment);
    });
  }
}

// asp:push=P: the gradients of P steps are pushed as P times their mean by samples.
void ServerStep::add_kept() {
  const double samples = kept_->samples + contribution_.samples;
  const double steps = kept_->steps + (contribution_.samples > 0 ? 1 : 0);
  const double unit = steps / samples;
  for (std::size_t t = 0; t < kept_->sums.size(); ++t)
    combine(worker_.tables().all()[t].type, unit * contribution_.samples, room_->flat[t], unit,
            kept_->sums[t], room_->flat[t]);
  contribution_.samples = contribution_.weight = samples / steps;
  kept_.reset();
}

void ServerStep::keep_gradient() {
  if (!kept_) {
    kept_ = Kept{};
    for (const std::span<std::byte> flat : room_->flat) kept_->sums.emplace_back(flat.size());
  }
  for (std::size_t t = 0; t < kept_->sums.size(); ++t)
    combine(worker_.tables().all()[t].type, contribution_.samples, room_->flat[t], 1,
            kept_->sums[t], kept_->sums[t]);
  kept_->samples += contribution_.samples;
  ++kept_->steps;
}

Result<void> ServerStep::flush() {
  if (!kept_) return {};
  TALLY_TRY(begin());
  choice_.push = true;
  choice_.pull = choice_.one_request = choice_.apply_locally = false;
  choice_.clock = worker_.clock().clock;
  requests_.begin(choice_, *room_);
  for (const std::span<std::byte> flat : room_->flat) std::memset(flat.data(), 0, flat.size());
  contribution_.samples = 0;
  add_kept();
  requests_.set_contribution(contribution_);
  requests_.push_rest();
  TALLY_TRY(rooms_.settle(*room_));
  worker_.after_step(choice_, {});
  renew();
  return {};
}

void ServerStep::renew() {
  has_chosen_ = announced_ = false;
  room_ = nullptr;
  is_ready_.assign(is_ready_.size(), false);
  is_told_.assign(is_told_.size(), false);
}

void ServerStep::give_up() {
  requests_.give_up();
  rooms_.give_up();
  kept_.reset();
  own_.clear();
  renew();
}

}  // namespace tally::exchange
