#include "adapters/torch/bucketed_module.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "base/stopwatch.h"

namespace tally::adapter {
namespace {

// Backward runs in one thread per device, and hooks must not overlap.
void check_devices(const std::vector<NamedTensor>& parameters) {
  const at::Device first = parameters.front().tensor.device();
  for (const NamedTensor& parameter : parameters)
    if (parameter.tensor.device() != first)
      refuse(ErrorCode::kInvalid,
             fmt::format("{} is on {} and {} on {}: the parameters of a rank must be on one device",
                         parameters.front().name, first.str(), parameter.name,
                         parameter.tensor.device().str()));
}

constexpr auto kSetupTimeout = std::chrono::minutes(5);

Deadline setup_deadline() { return Deadline::after(kSetupTimeout); }

}  // namespace

BucketedModule::BucketedModule(Communicator& world, std::vector<NamedTensor> parameters,
                               const exchange::GroupUpdate::Options& options)
    : world_(world),
      parameters_(std::move(parameters)),
      update_(or_throw(exchange::GroupUpdate::make(world, options, setup_deadline()))),
      is_collected_(parameters_.size(), false),
      is_told_(parameters_.size(), false) {
  check_devices(parameters_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (world.rank() == 0) {
      const at::Tensor& parameter = parameters_[i].tensor;
      copy_into(view_of(update_->values(i), parameter), parameter.detach());
    }
  }
  place_views();
  hooks_ = std::make_unique<GradientHooks>(parameters_, [this](std::size_t i) { arrived(i); });
}

BucketedModule::~BucketedModule() {
  hooks_.reset();
  // Parameters keep the newest values that have arrived.
  if (const auto settled = update_->settle(); !settled.has_value())
    log_warning("the last update is incomplete: " + settled.error().message);
  for (const NamedTensor& parameter : parameters_) {
    at::Tensor tensor = parameter.tensor;
    tensor.mutable_grad() = at::Tensor();
    if (tensor.device().is_cpu()) tensor.set_data(tensor.detach().clone());
  }
}

void BucketedModule::place_views() {
  value_views_.clear();
  gradient_views_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor parameter = parameters_[i].tensor;
    value_views_.push_back(view_of(update_->values(i), parameter));
    gradient_views_.push_back(view_of(update_->gradient(i), parameter));
    if (!parameter.device().is_cpu()) continue;
    parameter.set_data(value_views_.back());
    if (is_collected_[i]) parameter.mutable_grad() = gradient_views_.back();
  }
}

void BucketedModule::spread_values() {
  or_throw(update_->spread_values(setup_deadline()));
  values_to_devices();
}

void BucketedModule::adopt_values() {
  or_throw(update_->adopt_values(setup_deadline()));
  values_to_devices();
}

void BucketedModule::values_to_devices() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!parameters_[i].tensor.device().is_cpu()) parameters_[i].tensor.copy_(value_views_[i]);
}

void BucketedModule::forget_gradients() {
  for (const NamedTensor& parameter : parameters_) {
    at::Tensor tensor = parameter.tensor;
    tensor.mutable_grad() = at::Tensor();
  }
  is_collected_.assign(is_collected_.size(), false);
}

void BucketedModule::announce(const exchange::StepContribution& contribution) {
  // The first step only records the order of gradients.
  if (!order_is_settled_) return;
  settle();
  announced_ = true;
  update_->begin(contribution);
}

void BucketedModule::arrived(std::size_t parameter) {
  // Other ranks may already read the gradient.
  if (announced_ && is_told_[parameter])
    refuse(ErrorCode::kInvalid,
           fmt::format(
               "backward added to the gradient of {} twice, as checkpointed activations do: call "
               "backward() yourself, then apply()",
               parameters_[parameter].name));
  if (!order_is_settled_ && std::find(order_.begin(), order_.end(), parameter) == order_.end())
    order_.push_back(parameter);
  // On other devices the sum of an accumulation stays there until it is complete.
  if (announced_ || parameters_[parameter].tensor.device().is_cpu()) collect(parameter);
  if (!announced_) return;
  is_told_[parameter] = true;
  or_throw(update_->ready(parameter));
}

void BucketedModule::collect(std::size_t i) {
  at::Tensor parameter = parameters_[i].tensor;
  if (!parameter.grad().defined()) return;
  const Stopwatch watch(copying_);
  copy_into(gradient_views_[i], parameter.grad());
  if (parameter.device().is_cpu()) parameter.mutable_grad() = gradient_views_[i];
  is_collected_[i] = true;
}

// Unused parameters are last.
void BucketedModule::settle_order() {
  if (order_is_settled_) return;
  order_is_settled_ = true;
  for (std::size_t i = parameters_.size(); i-- > 0;)
    if (std::find(order_.begin(), order_.end(), i) == order_.end()) order_.push_back(i);
  if (or_throw(update_->reorder(order_, setup_deadline()))) place_views();
}

void BucketedModule::use_order(const std::vector<std::size_t>& order) {
  if (order_is_settled_) return;
  order_ = order;
  if (!order.empty()) return settle_order();
  // The order in which the buckets were made.
  order_is_settled_ = true;
  for (std::size_t i = parameters_.size(); i-- > 0;) order_.push_back(i);
}

// Collects gradients that the caller set or removed, or that are on another device.
std::vector<std::size_t> BucketedModule::gather() {
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!announced_) is_collected_[i] = false;
    if (!is_collected_[i] && parameters_[i].tensor.grad().defined()) collect(i);
    if (is_collected_[i]) ready.push_back(i);
  }
  return ready;
}

exchange::UpdateTotals BucketedModule::complete(const exchange::StepContribution& contribution,
                                                std::span<const double> sums) {
  const std::vector<std::size_t> ready = gather();
  settle_order();
  for (const std::size_t i : ready) or_throw(update_->ready(i));
  exchange::UpdateTotals totals = or_throw(update_->complete(contribution, sums));
  announced_ = false;
  is_told_.assign(is_told_.size(), false);
  if (totals.samples == 0) return totals;
  // The update has committed the values at another place.
  place_views();
  if (parameters_.front().tensor.device().is_cpu()) return totals;
  settle();
  values_to_devices();
  return totals;
}

void BucketedModule::settle() { or_throw(update_->settle()); }

std::unique_ptr<FirstUse> BucketedModule::await_use() {
  if (!update_->is_late()) return nullptr;
  std::vector<std::span<const std::byte>> memory;
  for (std::size_t i = 0; i < parameters_.size(); ++i) memory.emplace_back(update_->values(i));
  return std::make_unique<FirstUse>(
      // The update keeps an error, and the next step throws it.
      memory, [this](std::size_t i) { static_cast<void>(update_->await(i)); });
}

}  // namespace tally::adapter
