#include "exchange/server/server_step.h"

#include <algorithm>
#include <array>
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

// Whether all optimizers are sgd without state. dgc moves the momentum of sgd to the senders, so
// the optimizer on servers looks stateless.
bool is_plain(const ServerTables::Options& options) {
  if (options.codec.kind == plan::Codec::kDgc) return false;
  return std::all_of(
      options.optimizers.begin(), options.optimizers.end(), [](const OptimizerSpec& spec) {
        return spec.kind == OptimizerKind::kSgd && optimizer::state_arrays(spec) == 0;
      });
}

}  // namespace

ServerStep::ServerStep(ServerWorker& worker, const ClipLimits& clip, SparseRows* rows)
    : worker_(worker),
      clip_(clip),
      rows_(rows),
      is_plain_(is_plain(worker.tables().options())),
      rooms_(worker),
      requests_(worker, rooms_),
      is_ready_(worker.tables().places().size()),
      is_told_(is_ready_.size()) {}

Result<StepChoice> ServerStep::begin() {
  if (!has_chosen_) {
    choice_ = policy::next_step(worker_.rules(), worker_.clock(), /*is_last=*/false);
    // A worker that cannot update its own copy as servers do pulls the new values.
    if (!choice_.pull && !is_plain_) {
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
  const bool is_final =
      !clip_.any() && kept_.empty() && own.weight == own.samples && own.samples > 0;
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
  const bool has = choice_.takes_part && given.samples > 0;
  bool pushes = choice_.push && (has || rules.has_rounds());
  if (pushes && has && is_too_late()) {
    pushes = false;
    ++worker_.figures.dropped;
  }
  contribution_ = given;
  if (!has) contribution_.samples = contribution_.weight = contribution_.loss_sum = 0;
  requests_.set_contribution(contribution_);
  if (rows_ != nullptr) room_->rows = rows_->take();
  if (has || pushes) finish_gradient(has);
  if (pushes) requests_.push_rest();
  // The gradients of rows are not summed over steps: they are pushed in every step.
  if (pushes || (has && !choice_.push)) requests_.push_rows();
  if (!pushes && rules.update == plan::Update::kSsp) TALLY_TRY(worker_.tell_clock(choice_.clock));
  const bool with_push = pushes && choice_.one_request;
  if (choice_.pull) requests_.pull(with_push);
  if (pushes) TALLY_TRY(requests_.push_low_rank());
  TALLY_TRY(const Reading reading, requests_.await());
  const bool waits = choice_.wait_for_push || !worker_.tables().sparse().empty();
  if (pushes && waits && rules.update != plan::Update::kKbatch) TALLY_TRY(rooms_.settle(*room_));
  if (choice_.pull) requests_.apply();
  if (choice_.pull || (choice_.apply_locally && has)) worker_.tables().commit();
  worker_.after_step(choice_, reading);
  return StepTotals{.samples = contribution_.samples,
                    .loss_sum = contribution_.loss_sum,
                    .updated = has || rules.has_rounds()};
}

// Makes the mean over this worker's samples, clips it, and adds the sum of earlier steps. A missing
// gradient counts as zero.
void ServerStep::finish_gradient(bool has_gradient) {
  for (std::size_t p = 0; p < is_ready_.size(); ++p)
    if (!is_ready_[p]) {
      const std::span<std::byte> bytes = gradient(p);
      std::memset(bytes.data(), 0, bytes.size());
    }
  if (!announced_) {
    const std::vector<RealSpan> all = room_->all(worker_.tables());
    const StepContribution& own = contribution_;
    if (own.samples > 0 && own.weight != own.samples) scale(all, own.weight / own.samples);
    clip(all, clip_);
  }
  if (!has_gradient) return;
  if (choice_.apply_locally) move_own_copy();
  add_kept();
  if (!choice_.push) keep_gradient();
}

// Makes the next version of the own copy as servers do with a single gradient. The next pull
// includes the gradients of other workers.
void ServerStep::move_own_copy() {
  policy::Rules rules = worker_.rules();
  for (std::size_t t = 0; t < room_->flat.size(); ++t) {
    const ServerTables::Table& table = worker_.tables().all()[t];
    const OptimizerSpec& optimizer = worker_.tables().options().optimizers[table.group];
    rules.momentum = optimizer.momentum;
    const double rate = contribution_.rates[table.group] * policy::rate_factor(rules, 1);
    combine(table.type, 1 - rate * optimizer.weight_decay, table.values, -rate, room_->flat[t],
            table.next);
  }
}

// asp:push=P: the gradients of P steps are pushed as their sum.
void ServerStep::add_kept() {
  for (std::size_t t = 0; t < kept_.size(); ++t)
    combine(worker_.tables().all()[t].type, 1, room_->flat[t], 1, kept_[t], room_->flat[t]);
  kept_.clear();
}

void ServerStep::keep_gradient() {
  for (const std::span<std::byte> flat : room_->flat) kept_.emplace_back(flat.begin(), flat.end());
}

Result<void> ServerStep::flush() {
  if (kept_.empty()) return {};
  TALLY_TRY(begin());
  choice_.push = true;
  choice_.pull = choice_.one_request = choice_.apply_locally = false;
  choice_.clock = worker_.clock().clock;
  requests_.begin(choice_, *room_);
  for (std::size_t t = 0; t < kept_.size(); ++t)
    std::memcpy(room_->flat[t].data(), kept_[t].data(), kept_[t].size());
  kept_.clear();
  contribution_.samples = contribution_.weight = 1;
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
  kept_.clear();
  renew();
}

}  // namespace tally::exchange
