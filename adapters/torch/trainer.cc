#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "adapters/torch/trainer_impl.h"
#include "base/stopwatch.h"
#include "plan/plan.h"
#include "train/update_rule.h"

namespace tally {

using adapter::NamedTensor;
using adapter::or_throw;
using adapter::refuse;

std::unique_ptr<Job> join() { return or_throw(Job::join()); }

ParameterGroup without_decay(OptimizerSpec optimizer) {
  optimizer.weight_decay = 0;
  return {.matches = [](const std::string&, const at::Tensor& tensor) { return tensor.dim() < 2; },
          .optimizer = optimizer};
}

namespace {

std::vector<OptimizerSpec> optimizers_of(const OptimizerSpec& first,
                                         const std::vector<ParameterGroup>& groups) {
  std::vector<OptimizerSpec> optimizers = {first};
  for (const ParameterGroup& group : groups) {
    if (group.optimizer.kind != first.kind)
      refuse(ErrorCode::kInvalid, "parameter groups must have the trainer's kind of optimizer");
    optimizers.push_back(group.optimizer);
  }
  for (const OptimizerSpec& optimizer : optimizers) or_throw(check(optimizer));
  return optimizers;
}

std::size_t group_of(const NamedTensor& parameter, const std::vector<ParameterGroup>& groups) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (groups[g].matches(parameter.name, parameter.tensor)) return g + 1;
  return 0;
}

train::ParameterInfo info_of(const NamedTensor& parameter, std::size_t group) {
  if (!parameter.tensor.is_floating_point())
    refuse(ErrorCode::kInvalid, fmt::format("{} is not of a real type", parameter.name));
  return {.name = parameter.name,
          .type = adapter::data_type_of(parameter.tensor, parameter.name),
          .shape = adapter::shape_of(parameter.tensor),
          .group = group};
}

void check_options(const TrainerOptions& options) {
  or_throw(plan::check(or_throw(plan::parse_plan(options.plan))));
  if (options.accumulate < 1) refuse(ErrorCode::kInvalid, "accumulate must be at least 1");
  if (options.clip_norm && !(*options.clip_norm > 0))
    refuse(ErrorCode::kInvalid, "clip_norm must be above 0");
  if (options.clip_value && !(*options.clip_value > 0))
    refuse(ErrorCode::kInvalid, "clip_value must be above 0");
}

}  // namespace

Trainer::Impl::Impl(Job& job, torch::nn::Module& module, const OptimizerSpec& optimizer,
                    TrainerOptions options)
    : job_(job),
      options_(std::move(options)),
      optimizers_(optimizers_of(optimizer, options_.groups)),
      tensors_(adapter::tensors_of(module)) {
  check_options(options_);
  train::ShardedUpdate::Options update{.parameters = {},
                                       .optimizers = optimizers_,
                                       .bucket_bytes = options_.bucket_bytes,
                                       .clip_value = options_.clip_value,
                                       .clip_norm = options_.clip_norm};
  for (const NamedTensor& parameter : tensors_.trained)
    update.parameters.push_back(info_of(parameter, group_of(parameter, options_.groups)));
  if (update.parameters.empty())
    refuse(ErrorCode::kInvalid, "the module has no parameter that requires a gradient");
  model_ = std::make_unique<adapter::BucketedModule>(job.world(), tensors_.trained, update);
  model_->spread_values();
  broadcast_from_first(tensors_.frozen);
  broadcast_from_first(tensors_.buffers);
}

void Trainer::Impl::set_rates() {
  std::vector<double> rates;
  const double factor = options_.schedule.factor(steps_);
  for (const OptimizerSpec& optimizer : optimizers_) rates.push_back(optimizer.rate * factor);
  model_->update().set_rates(std::move(rates));
}

// Inside an accumulation gradients are sums over samples; otherwise they are means, and exactly what libtorch made.
void Trainer::Impl::backward(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss,
                             bool is_last) {
  const at::Tensor loss = mean_loss();
  if (!loss.defined() || loss.numel() != 1)
    refuse(ErrorCode::kInvalid, "the loss must be a tensor with one element");
  const auto total = static_cast<double>(pending_.samples + samples);
  if (is_last) model_->announce({.samples = total, .weight = options_.accumulate > 1 ? 1 : total});
  if (options_.accumulate > 1) {
    (loss * static_cast<double>(samples)).backward();
  } else {
    loss.backward();
  }
  pending_.samples += samples;
  pending_.loss_sum += loss.item<double>() * static_cast<double>(samples);
}

StepOutcome Trainer::Impl::step(std::uint64_t samples,
                                const std::function<at::Tensor()>& mean_loss) {
  const Stopwatch watch(in_steps_);
  const bool is_last = pending_.calls + 1 == options_.accumulate;
  set_rates();
  if (samples > 0) backward(samples, mean_loss, is_last);
  ++pending_.calls;
  if (!is_last) return {};
  const Pending done = std::exchange(pending_, {});
  const auto own = static_cast<double>(done.samples);
  return outcome_of(complete({.samples = own, .weight = options_.accumulate > 1 ? 1 : own},
                             done.loss_sum, false));
}

StepOutcome Trainer::Impl::apply(std::uint64_t samples, double loss) {
  const Stopwatch watch(in_steps_);
  set_rates();
  const auto own = static_cast<double>(samples);
  return outcome_of(complete({.samples = own, .weight = own}, loss * own, false));
}

train::StepTotals Trainer::Impl::complete(const train::StepContribution& contribution,
                                          double loss_sum, bool draining) {
  const std::vector<double> sums = {loss_sum, draining ? 1.0 : 0.0};
  train::StepTotals totals = model_->complete(contribution, sums);
  if (totals.samples > 0) ++steps_;
  job_.count_step(static_cast<std::uint64_t>(contribution.samples));
  model_->forget_gradients();
  return totals;
}

StepOutcome Trainer::Impl::outcome_of(const train::StepTotals& totals) {
  if (totals.samples == 0) return {};
  return {.loss = totals.sums[0] / totals.samples,
          .samples = static_cast<std::uint64_t>(totals.samples),
          .updated = true};
}

void Trainer::Impl::drain() {
  while (true) {
    set_rates();
    const train::StepTotals totals = complete({}, 0, true);
    if (totals.sums[1] == static_cast<double>(job_.size())) return;
  }
}

TimeSplit Trainer::Impl::times() const {
  const train::StepTimes inner = model_->update().times();
  const Duration communicate = inner.update + model_->copying();
  return {.compute = in_steps_ - communicate - inner.wait,
          .communicate = communicate,
          .wait = inner.wait};
}

std::size_t Trainer::Impl::state_bytes() {
  std::size_t bytes = 0;
  for (const train::SliceState& slice : model_->update().states())
    for (const std::span<std::byte> array : slice.state) bytes += array.size();
  return bytes;
}

std::vector<double> Trainer::Impl::sum(std::vector<double> values) {
  if (!values.empty()) or_throw(job_.world().allreduce(std::span(values)));
  return values;
}

Trainer::Trainer(Job& job, torch::nn::Module& module, const OptimizerSpec& optimizer,
                 TrainerOptions options)
    : impl_(std::make_unique<Impl>(job, module, optimizer, std::move(options))) {}
Trainer::~Trainer() = default;

StepOutcome Trainer::step(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss) {
  return impl_->step(samples, mean_loss);
}
StepOutcome Trainer::apply(std::uint64_t samples, double loss) {
  return impl_->apply(samples, loss);
}
void Trainer::zero_grad() { impl_->zero_grad(); }
void Trainer::drain() { impl_->drain(); }
void Trainer::synchronise_buffers() { impl_->synchronise_buffers(); }
double Trainer::rate() const { return impl_->rate(); }
std::uint64_t Trainer::steps() const { return impl_->steps(); }
RateSchedule& Trainer::schedule() { return impl_->schedule(); }
TimeSplit Trainer::times() const { return impl_->times(); }
std::size_t Trainer::state_bytes() { return impl_->state_bytes(); }
std::vector<double> Trainer::sum(std::vector<double> values) {
  return impl_->sum(std::move(values));
}
checkpoint::Content Trainer::checkpoint() { return impl_->checkpoint(); }
void Trainer::restore(const checkpoint::Reader& reader) { impl_->restore(reader); }

}  // namespace tally
