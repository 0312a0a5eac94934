#include "adapters/torch/bound_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include "adapters/torch/gpu_event.h"
#include "base/check.h"
#include "base/stopwatch.h"

namespace tally::adapter {
namespace {

// Moves the storage of the tensor, and so all views of it, to other memory.
void move_to(const at::Tensor& tensor, std::span<std::byte> memory) {
  if (tensor.data_ptr() != memory.data())
    tensor.storage().set_data_ptr(at::DataPtr(memory.data(), tensor.device()));
}

// Whether two tensors share their memory.
bool are_together(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && !a.is_sparse() && !b.is_sparse() && a.is_alias_of(b);
}

// A type of its own, by which is_hooked() finds the hook.
class GradientHook final : public torch::autograd::utils::LambdaPostHook {
 public:
  using LambdaPostHook::LambdaPostHook;
};

// Waits for the work that this thread has given a GPU.
void finish_work(const at::Device& device) {
  if (device.is_cpu()) return;
  c10::Event done(device.type());
  done.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  wait_for(done);
}

}  // namespace

// Backward runs in one thread per device, and hooks must not overlap.
void check_one_device(const std::vector<NamedTensor>& parameters) {
  for (const NamedTensor& parameter : parameters)
    if (parameter.tensor.device() != parameters.front().tensor.device())
      refuse(ErrorCode::kInvalid,
             fmt::format("{} is on {} and {} on {}: move the whole module to one device before the "
                         "trainer is made",
                         parameters.front().name, parameters.front().tensor.device().str(),
                         parameter.name, parameter.tensor.device().str()));
}

bool is_hooked(const at::Tensor& parameter) {
  if (!parameter.defined() || !parameter.requires_grad() || !parameter.is_leaf()) return false;
  const auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
  const auto& hooks = accumulator->post_hooks();
  return std::any_of(hooks.begin(), hooks.end(), [](const auto& hook) {
    return dynamic_cast<const GradientHook*>(hook.get()) != nullptr;
  });
}

std::function<void(std::size_t parameter, DataType type, std::span<std::byte> values)>
initial_values(std::vector<NamedTensor> parameters) {
  return [parameters = std::move(parameters)](std::size_t p, DataType type,
                                              std::span<std::byte> values) {
    const at::Tensor& parameter = parameters[p].tensor;
    copy_into(tensor_over(values, scalar_type_of(type), parameter), parameter.detach());
  };
}

BoundExchange::BoundExchange(std::unique_ptr<exchange::Exchange> exchange,
                             std::vector<NamedTensor> parameters, OnDevice device)
    : exchange_(std::move(exchange)),
      device_(std::move(device)),
      on_device_(exchange_->on_device()) {
  check_one_device(parameters);
  if (!exchange_->reads_elsewhere()) GradientSlots::install_allocator();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    at::Tensor parameter = parameters[p].tensor;
    const at::ScalarType type = scalar_type_of(exchange_->type(p));
    Bound bound{
        .parameter = parameter,
        .placed = {},
        .name = parameters[p].name,
        .is_view = (on_device_ || parameter.device().is_cpu()) && parameter.scalar_type() == type,
        .values = tensor_over(exchange_->values(p), type, parameter,
                              on_device_ ? parameter.device() : at::Device(at::kCPU)),
        .gradient = tensor_over({}, type, parameter)};
    if (bound.is_view) parameter.set_data(bound.values);
    bound.placed = parameter.detach();
    bound_.push_back(std::move(bound));
  }
  publish_values();
  install_hooks();
  // The exchange keeps an error, and its next call returns it.
  if (exchange::Background* const background = exchange_->background())
    background_ = std::jthread([background] { (void)background->serve(); });
}

// Backward calls arrived(p) in its own thread whenever it has accumulated a gradient into parameter
// p. An exception ends it.
void BoundExchange::install_hooks() {
  using torch::autograd::variable_list;
  for (std::size_t p = 0; p < bound_.size(); ++p) {
    bound_[p].accumulator = torch::autograd::impl::grad_accumulator(bound_[p].parameter);
    bound_[p].hook = bound_[p].accumulator->add_post_hook(std::make_unique<GradientHook>(
        [this, p](const variable_list& outputs, const variable_list&) {
          arrived(p);
          return outputs;
        }));
  }
}

void BoundExchange::remove_hooks() {
  for (Bound& bound : bound_) {
    bound.accumulator->del_post_hook(bound.hook);
    bound.accumulator = {};
  }
}

// An accumulator runs on the stream that was current when it was made.
void BoundExchange::renew_hooks() {
  remove_hooks();
  install_hooks();
}

void BoundExchange::prepare() const {
  if (device_.before_use) device_.before_use();
}

BoundExchange::~BoundExchange() {
  remove_hooks();
  if (exchange::Background* const background = exchange_->background()) background->stop();
  background_ = {};
  follow_values();
  for (const Bound& bound : bound_) bound.parameter.mutable_grad() = at::Tensor();
  // Parameters on a device that hangs stay as they are: a copy would wait for it.
  if (device_.answers && !device_.answers()) return;
  for (const Bound& bound : bound_)
    if (bound.is_view) give_own_memory(bound);
}

// Called by the destructor: must not throw.
void BoundExchange::give_own_memory(const Bound& bound) {
  at::Tensor parameter = bound.parameter;
  for (const at::Device device : {parameter.device(), at::Device(at::kCPU)}) {
    try {
      return parameter.set_data(parameter.detach().to(device, parameter.scalar_type(),
                                                      /*non_blocking=*/false, /*copy=*/true));
    } catch (const c10::Error&) {
      // The GPU has no memory left, or it has failed: then every use of the parameter fails.
    }
  }
}

void BoundExchange::follow_values() {
  for (std::size_t p = 0; p < bound_.size(); ++p) move_to(bound_[p].values, exchange_->values(p));
}

void BoundExchange::publish_values() {
  follow_values();
  const at::NoGradGuard no_grad;
  for (const Bound& bound : bound_)
    if (!bound.is_view) bound.parameter.copy_(bound.values);
}

bool BoundExchange::begin() {
  prepare();
  const bool computes = or_throw(exchange_->begin()).computes;
  begun_ = true;
  follow_values();
  follow_gradients();
  return computes;
}

// Gradients in old slots keep that memory alive; tell() copies them.
void BoundExchange::follow_gradients() {
  exchange::GradientMemory* const memory =
      exchange_->reads_elsewhere() ? nullptr : exchange_->gradient_memory();
  if (memory == nullptr && slots_ == nullptr) return;
  if (memory != nullptr && slots_ != nullptr && slots_->owner() == memory->owner()) return;
  slots_ = memory != nullptr ? std::make_shared<GradientSlots>(memory->owner()) : nullptr;
  for (std::size_t p = 0; p < bound_.size(); ++p) {
    Bound& bound = bound_[p];
    bound.gradient =
        slots_ ? at::Tensor() : tensor_over({}, bound.values.scalar_type(), bound.parameter);
    if (slots_) slots_->add(exchange_->gradient(p));
  }
}

void BoundExchange::keep_captured() {
  captured_.clear();
  for (const Bound& bound : bound_) captured_.push_back(bound.parameter.grad());
  captured_arrivals_ = std::exchange(arrivals_, {});
  forget_gradients();
}

void BoundExchange::forget_captured() { captured_.clear(); }

void BoundExchange::show_captured() {
  for (std::size_t p = 0; p < bound_.size(); ++p) bound_[p].parameter.mutable_grad() = captured_[p];
  arrivals_ = captured_arrivals_;
}

void BoundExchange::backward(const at::Tensor& loss) {
  const bool has_views = !bound_.empty() && bound_.front().is_view;
  const SlotScope scope(has_views ? slots_ : nullptr);
  loss.backward();
}

void BoundExchange::announce(const exchange::StepContribution& contribution) {
  if (!begun_) begin();
  prepare();
  announced_ = or_throw(exchange_->announce(contribution));
}

void BoundExchange::arrived(std::size_t p) {
  Bound& bound = bound_[p];
  // Other ranks may already read the gradient.
  if (announced_ && bound.is_told)
    refuse(ErrorCode::kInvalid,
           fmt::format(
               "backward added to the gradient of {} twice, as checkpointed activations do: call "
               "backward() yourself, then apply()",
               bound.name));
  if (announced_) return tell(p);
  if (std::find(arrivals_.begin(), arrivals_.end(), p) == arrivals_.end()) arrivals_.push_back(p);
  // On other devices the sum of an accumulation stays there until it is complete.
  if (!bound.parameter.device().is_cpu()) {
    if (is_shared(p)) bound.parameter.mutable_grad() = bound.parameter.grad().clone();
    return;
  }
  if (!can_stay(bound) || is_shared(p)) collect(p);
}

// Whether another parameter has its gradient in the same memory, as in backward of a sum. The next
// backward would add to it twice.
bool BoundExchange::is_shared(std::size_t p) const {
  const at::Tensor& own = bound_[p].parameter.grad();
  for (std::size_t other = 0; other < bound_.size(); ++other)
    if (other != p && are_together(own, bound_[other].parameter.grad())) return true;
  return false;
}

// Whether the exchange can read the gradient where backward put it.
bool BoundExchange::can_stay(const Bound& bound) const {
  const at::Tensor& gradient = bound.parameter.grad();
  return bound.is_view && !gradient.is_sparse() && gradient.is_contiguous() &&
         gradient.scalar_type() == bound.values.scalar_type() &&
         gradient.device() == bound.values.device() &&
         (exchange_->reads_elsewhere() || (slots_ && slots_->contains(gradient)));
}

// The gradient is final.
void BoundExchange::tell(std::size_t p) {
  Bound& bound = bound_[p];
  if (!bound.parameter.grad().defined()) return;
  if (!begun_) begin();
  prepare();  // the hook of a parameter may run on another stream
  const bool stays = can_stay(bound);
  // The slot stays in use until the update ends, also if the caller clears the gradient.
  if (stays && slots_) bound.gradient = bound.parameter.grad();
  const std::byte* const place = stays ? bytes_of(bound.parameter.grad()).data() : collect(p);
  or_throw(exchange_->ready(p, place));
  bound.is_told = true;
}

// Copies the gradient into the memory of the exchange, unless it lies there. Returns its address;
// null means gradient(p) of the exchange.
const std::byte* BoundExchange::collect(std::size_t p) {
  Bound& bound = bound_[p];
  if (!begun_) begin();
  if (on_device_) return copy_on_device(p);
  if (bound.values.numel() == 0) return nullptr;
  // The time of the copy is not that of the backward pass before it.
  finish_work(bound.parameter.device());
  const Stopwatch watch(copying_);
  if (slots_) {
    take_slot(p);
  } else {
    move_gradient(p);
  }
  copy_into(bound.gradient, bound.parameter.grad());
  if (bound.is_view) bound.parameter.mutable_grad() = bound.gradient;
  return slots_ ? bytes_of(bound.gradient).data() : nullptr;
}

// The gradient in one piece and in the type of the parameter. It is kept until the update ends.
const std::byte* BoundExchange::copy_on_device(std::size_t p) {
  Bound& bound = bound_[p];
  const at::NoGradGuard no_grad;
  at::Tensor gradient = bound.parameter.grad();
  if (gradient.is_sparse()) gradient = gradient.to_dense();
  bound.gradient = gradient.to(bound.values.options()).contiguous();
  return bytes_of(bound.gradient).data();
}

// Gives the parameter a slot for its gradient. The exchange adds memory if other tensors have all
// slots of that size.
void BoundExchange::take_slot(std::size_t p) {
  Bound& bound = bound_[p];
  if (bound.gradient.defined()) return;
  const std::size_t bytes = bound.values.nbytes();
  at::DataPtr slot = slots_->allocate(bytes);
  if (!slot) {
    slots_->add(or_throw(exchange_->gradient_memory()->add(bytes)));
    slot = slots_->allocate(bytes);
    TALLY_CHECK(slot);
  }
  bound.gradient = tensor_owning(std::move(slot), bound.values);
}

// A gradient that lies in the old memory moves along.
void BoundExchange::move_gradient(std::size_t p) {
  const Bound& bound = bound_[p];
  const std::span<std::byte> memory = exchange_->gradient(p);
  if (bound.gradient.data_ptr() == memory.data()) return;
  if (are_together(bound.parameter.grad(), bound.gradient))
    std::memcpy(memory.data(), bound.gradient.data_ptr(), memory.size());
  move_to(bound.gradient, memory);
}

// Tells the gradients that were not announced, in the order of their arrival, then those that the
// caller set.
void BoundExchange::gather() {
  if (!begun_) begin();
  for (const std::size_t p : arrivals_)
    if (!bound_[p].is_told) tell(p);
  for (std::size_t p = bound_.size(); p-- > 0;)
    if (!bound_[p].is_told) tell(p);
}

void BoundExchange::end_update() {
  begun_ = announced_ = false;
  arrivals_.clear();
  for (Bound& bound : bound_) bound.is_told = false;
  release_gradients();
  publish_values();
}

exchange::StepTotals BoundExchange::complete(const exchange::StepContribution& contribution) {
  prepare();
  gather();
  auto totals = exchange_->complete(contribution);
  release_gradients();
  const exchange::StepTotals made = or_throw(std::move(totals));
  end_update();
  return made;
}

// Slots are free again. Without slots, the exchange may have freed the memory of gradients.
void BoundExchange::release_gradients() {
  for (Bound& bound : bound_) {
    if (are_together(bound.parameter.grad(), bound.gradient))
      bound.parameter.mutable_grad() = at::Tensor();
    if (slots_ || on_device_) bound.gradient = at::Tensor();
  }
}

void BoundExchange::forget_gradients() {
  for (Bound& bound : bound_) {
    bound.parameter.mutable_grad() = at::Tensor();
    if (slots_ || on_device_) bound.gradient = at::Tensor();
  }
}

void BoundExchange::check_memory() const {
  for (const Bound& bound : bound_)
    if (!bound.parameter.is_alias_of(bound.placed))
      refuse(ErrorCode::kInvalid,
             fmt::format("{} no longer lies where the trainer placed it: torch::load(), to() or "
                         "set_data() has replaced its memory; load values before the trainer "
                         "is made, or restore() a checkpoint",
                         bound.name));
}

void BoundExchange::drain(const exchange::StepContribution& rest) {
  prepare();
  gather();
  or_throw(exchange_->drain(rest));
  end_update();
}

std::vector<double> BoundExchange::sum(std::vector<double> values) {
  or_throw(exchange_->meetings().sum(values));
  return values;
}

std::vector<double> BoundExchange::meet(std::vector<double> values) {
  or_throw(exchange_->meetings().meet(values));
  begun_ = false;
  publish_values();
  return values;
}

void BoundExchange::broadcast(const std::vector<NamedTensor>& tensors) {
  std::vector<at::Tensor> copies;
  std::vector<std::byte> bytes;
  for (const NamedTensor& named : tensors) {
    copies.push_back(named.tensor.detach().to(at::kCPU).contiguous());
    const std::span<const std::byte> own = bytes_of(copies.back());
    bytes.insert(bytes.end(), own.begin(), own.end());
  }
  if (bytes.empty()) return;
  or_throw(exchange_->meetings().broadcast(bytes));
  std::span<std::byte> rest = bytes;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t count = copies[i].nbytes();
    copy_into(tensors[i].tensor.detach(),
              tensor_over(rest.first(count), copies[i].scalar_type(), copies[i]));
    rest = rest.subspan(count);
  }
}

void BoundExchange::save(const exchange::TrainedModel& model, checkpoint::Content& content) {
  prepare();
  or_throw(exchange::add_states(model, exchange_->checkpoint(), content));
  begun_ = false;
  publish_values();
}

void BoundExchange::restore(const exchange::TrainedModel& model, const checkpoint::Reader& reader,
                            const exchange::SavedCourse& course) {
  prepare();
  const auto restored = exchange::restore_states(model, exchange_->checkpoint(), reader, course);
  // Also after an error the values may have other memory.
  end_update();
  or_throw(restored);
}

}  // namespace tally::adapter
