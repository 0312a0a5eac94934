#include <malloc.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "adapters/torch/trainer_impl.h"
#include "base/stopwatch.h"
#include "optimizer/update_rule.h"
#include "plan/plan.h"
#include "train/check_same.h"

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

// Tensors up to the size that malloc allows this for, which is 32 MiB.
void keep_freed_memory() {
  constexpr int kLargest = 32 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargest);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  ::mallopt(M_TOP_PAD, 2 * kLargest);
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
  if (options_.keep_freed_memory) keep_freed_memory();
  train::ShardedUpdate::Options update{.parameters = {},
                                       .optimizers = optimizers_,
                                       .bucket_bytes = options_.bucket_bytes,
                                       .clip_value = options_.clip_value,
                                       .clip_norm = options_.clip_norm};
  for (const NamedTensor& parameter : tensors_.trained)
    update.parameters.push_back(info_of(parameter, group_of(parameter, options_.groups)));
  if (update.parameters.empty())
    refuse(ErrorCode::kInvalid, "the module has no parameter that requires a gradient");
  update.settings = {fmt::format("accumulate {}", options_.accumulate)};
  check_untrained();
  model_ = std::make_unique<adapter::BucketedModule>(job.world(), tensors_.trained, update);
  model_->spread_values();
  broadcast_from_first(tensors_.frozen);
  broadcast_from_first(tensors_.buffers);
}

// What is not trained must be alike as well: it is sent from rank 0 to the others.
void Trainer::Impl::check_untrained() {
  train::Sameness same{.what = "models", .item = "frozen parameter or buffer", .lines = {}};
  for (const auto* list : {&tensors_.frozen, &tensors_.buffers})
    for (const NamedTensor& named : *list)
      same.lines.push_back(
          train::to_string({.name = named.name,
                            .type = adapter::data_type_of(named.tensor, named.name),
                            .shape = adapter::shape_of(named.tensor)}));
  or_throw(train::check_same(job_.world(), same, Deadline::after(std::chrono::minutes(5))));
}

void Trainer::Impl::set_rates() {
  std::vector<double> rates;
  const double factor = options_.schedule.factor(steps_);
  for (const OptimizerSpec& optimizer : optimizers_) rates.push_back(optimizer.rate * factor);
  model_->update().set_rates(std::move(rates));
}

void Trainer::Impl::check_whole() const {
  if (is_broken_)
    refuse(ErrorCode::kInvalid,
           "an earlier step ended in the middle of its backward pass, which the other ranks "
           "counted on: go on "
           "from a checkpoint");
}

void Trainer::Impl::zero_grad() {
  model_->forget_gradients();
  pending_ = {};
}

// Calls of an accumulation weigh by their samples: each gradient is scaled to the first one's, which stays exactly what
// libtorch made, and so does the only one where there is none but it.
void Trainer::Impl::backward(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss,
                             bool is_last) {
  const at::Tensor loss = mean_loss();
  if (!loss.defined() || loss.numel() != 1)
    refuse(ErrorCode::kInvalid, "the loss must be a tensor with one element");
  if (pending_.unit == 0) pending_.unit = samples;
  pending_.samples += samples;
  if (is_last) model_->announce(pending_.contribution());
  if (samples != pending_.unit) {
    (loss * (static_cast<double>(samples) / static_cast<double>(pending_.unit))).backward();
  } else {
    loss.backward();
  }
  pending_.loss_sum += loss.item<double>() * static_cast<double>(samples);
}

StepOutcome Trainer::Impl::step(std::uint64_t samples,
                                const std::function<at::Tensor()>& mean_loss) {
  check_whole();
  const Stopwatch watch(in_steps_);
  const bool is_last = pending_.calls + 1 == options_.accumulate;
  set_rates();
  try {
    if (samples > 0) backward(samples, mean_loss, is_last);
  } catch (...) {
    is_broken_ = model_->is_announced();
    throw;
  }
  ++pending_.calls;
  if (!is_last) return {};
  const Pending done = std::exchange(pending_, {});
  return outcome_of(complete(done.contribution(), done.loss_sum, false));
}

StepOutcome Trainer::Impl::apply(std::uint64_t samples, double loss) {
  check_whole();
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

// What an accumulation has so far comes along the first time.
void Trainer::Impl::drain() {
  check_whole();
  const Stopwatch watch(in_steps_);
  while (true) {
    set_rates();
    const Pending rest = std::exchange(pending_, {});
    const train::StepTotals totals = complete(rest.contribution(), rest.loss_sum, true);
    if (totals.sums[1] == static_cast<double>(job_.size())) return;
  }
}

TimeSplit Trainer::Impl::times() const {
  const train::StepTimes inner = model_->update().times();
  const Duration communicate = inner.update + model_->copying();
  // Gradients that backward() brings outside of step() are not moved inside one.
  return {.compute = std::max(Duration{}, in_steps_ - communicate - inner.wait),
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
