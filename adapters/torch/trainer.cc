#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "adapters/torch/bound_exchange.h"
#include "adapters/torch/trainer_impl.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/stopwatch.h"
#include "exchange/check_same.h"
#include "exchange/lane/codec_groups.h"
#include "exchange/make_exchange.h"
#include "exchange/server/server_place.h"

namespace tally {

using adapter::check_one_device;
using adapter::NamedTensor;
using adapter::or_throw;
using adapter::refuse;

std::unique_ptr<Job> join() { return or_throw(Job::join()); }

ParameterGroup without_decay(OptimizerSpec optimizer) {
  optimizer.weight_decay = 0;
  if (optimizer.kind == OptimizerKind::kLamb || optimizer.kind == OptimizerKind::kLars)
    optimizer.adapts = false;
  return {.matches = [](const std::string&, const at::Tensor& tensor) { return tensor.dim() < 2; },
          .optimizer = optimizer};
}

namespace {

// Records a phase of a step, for people who watch the job.
class PhaseScope final {
 public:
  PhaseScope(Job& job, std::string_view name) : job_(job), name_(name) {}
  ~PhaseScope() { job_.record_phase(name_, began_, steady_now()); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Job& job_;
  const std::string_view name_;
  const TimePoint began_ = steady_now();
};

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

exchange::ParameterInfo parameter_of(const NamedTensor& named, std::size_t group) {
  if (!named.tensor.is_floating_point())
    refuse(ErrorCode::kInvalid, fmt::format("{} must have a real type", named.name));
  const checkpoint::TensorInfo info = adapter::info_of(named);
  return {.name = info.name, .type = info.type, .shape = info.shape, .group = group};
}

// Affects tensors up to 32 MiB, the largest threshold that malloc allows.
void keep_freed_memory() {
  constexpr int kLargest = 32 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargest);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  ::mallopt(M_TOP_PAD, 2 * kLargest);
}

// Two trainers would move a parameter into the memory of the second, and the first would go on with
// its own copy. Checked before anything of the module changes.
torch::nn::Module& check_untaken(torch::nn::Module& module) {
  const auto taken = [](const std::string& name) {
    refuse(ErrorCode::kInvalid,
           fmt::format("{} belongs to another trainer: destroy that trainer first, or give each "
                       "trainer a module with its own parameters",
                       name));
  };
  for (const auto& item : module.named_parameters())
    if (adapter::is_hooked(item.value())) taken("parameter " + item.key());
  for (const auto& [name, embedding] : adapter::embeddings_of(module))
    if (embedding->is_attached()) taken("embedding " + name);
  return module;
}

// Under plans that do not wait for all gradients, ranks run their forward passes independently.
void check_alone(const torch::nn::Module& module, const plan::Plan& plan) {
  if (plan.home == plan::Home::kGroup && plan.update == plan::Update::kBsp) return;
  // The module itself may be a local variable, of which libtorch can return no pointer.
  std::vector<const torch::nn::Module*> parts = {&module};
  for (const auto& part : module.modules(/*include_self=*/false)) parts.push_back(part.get());
  for (const torch::nn::Module* const part : parts)
    if (dynamic_cast<const SyncBatchNormImpl*>(part) != nullptr)
      refuse(ErrorCode::kInvalid,
             fmt::format("SyncBatchNorm needs all ranks in every step, and with home={} {} they "
                         "are not: use BatchNorm",
                         plan.home == plan::Home::kServer ? "server" : "group",
                         plan::update_text(plan)));
}

train::Disturbance disturbance_of(const TrainerOptions& options) {
  return {.stragglers = or_throw(train::parse_stragglers(options.straggle)),
          .delay = or_throw(train::parse_delay(options.delay)),
          .seed = options.seed};
}

train::LossScaler scaler_of(const TrainerOptions& options) {
  const LossScale given = options.loss_scale.value_or(LossScale());
  const bool is_sound = given.initial > 0 && std::isfinite(given.initial) && given.growth >= 1 &&
                        std::isfinite(given.growth) && given.backoff > 0 && given.backoff < 1 &&
                        given.interval > 0;
  if (!is_sound)
    refuse(ErrorCode::kInvalid,
           "loss_scale: need an initial factor above 0, a growth of at least 1, a backoff between "
           "0 and 1, and an interval above 0");
  return {.scale = given.initial,
          .growth = given.growth,
          .backoff = given.backoff,
          .interval = given.interval};
}

}  // namespace

Trainer::Impl::Impl(Job& job, torch::nn::Module& module, const OptimizerSpec& optimizer,
                    TrainerOptions options)
    : job_(job),
      options_(std::move(options)),
      plan_(or_throw(plan::parse_plan(options_.plan))),
      model_{.parameters = {},
             .optimizers = optimizers_of(optimizer, options_.groups),
             .codec = plan_.codec},
      embeddings_(plan_.home == plan::Home::kServer
                      ? std::make_unique<adapter::ServerEmbeddings>(module)
                      : nullptr),
      embedding_names_(adapter::embedding_names_of(module)),
      tensors_(adapter::tensors_of(module)),
      disturbance_(disturbance_of(options_)),
      scaler_(scaler_of(options_)) {
  if (options_.accumulate < 1) refuse(ErrorCode::kInvalid, "accumulate must be at least 1");
  check_alone(module, plan_);
  if (options_.keep_freed_memory) keep_freed_memory();
  if (tensors_.trained.empty() && !(embeddings_ && !embeddings_->empty()))
    refuse(ErrorCode::kInvalid, "the module has no parameter that requires a gradient");
  check_one_device(tensors_.trained);
  check_untrained();
  const at::Device device =
      tensors_.trained.empty() ? at::Device(at::kCPU) : tensors_.trained.front().tensor.device();
  gpu_ = adapter::open_gpu(device);
  if (gpu_) gpu_->follow_stream();
  if (!gpu_ && !device.is_cpu() && job_.rank() == 0 && options_.on_event)
    options_.on_event("gradients go through host memory: Tally was built without nvcc");
  bound_ = std::make_unique<adapter::BoundExchange>(
      make_exchange(), tensors_.trained,
      gpu_ ? adapter::BoundExchange::OnDevice{
                 .before_use = [gpu = gpu_.get()] { gpu->follow_stream(); },
                 .answers =
                     [gpu = gpu_.get()] {
                       constexpr auto kLimit = std::chrono::minutes(5);
                       return gpu->device()->wait(Deadline::after(kLimit)).has_value();
                     }}
           : adapter::BoundExchange::OnDevice{});
  if (options_.graphs) {
    const std::string why = why_not_captured();
    if (why.empty()) {
      graph_ = gpu_->make_graph();
      capture_rule_ = std::make_shared<adapter::CaptureRule>();
      const std::shared_ptr<void> on_its_stream = graph_->enter();
      bound_->renew_hooks();
    }
    if (!why.empty()) tell_no_graphs(why);
  }
  bound_->broadcast(tensors_.untrained);
  bound_->begin();
}

std::unique_ptr<exchange::Exchange> Trainer::Impl::make_exchange() {
  exchange::ExchangeOptions options{
      .plan = plan_,
      .update = {.bucket_bytes = options_.bucket_bytes,
                 .clip_value = options_.clip_value,
                 .clip_norm = options_.clip_norm,
                 .discards_nonfinite = options_.loss_scale.has_value(),
                 .on_event = options_.on_event,
                 .seed = options_.seed,
                 .replicas = options_.replica == Replica::kRank ? exchange::Replicas::kPerRank
                                                                : exchange::Replicas::kPerHost,
                 .beside = !options_.in_place},
      .initial = adapter::initial_values(tensors_.trained),
      .servers = {}};
  for (const NamedTensor& parameter : tensors_.trained)
    model_.parameters.push_back(parameter_of(parameter, group_of(parameter, options_.groups)));
  exchange::CodecGroups groups =
      or_throw(exchange::split_groups(plan_.codec, model_.optimizers, model_.parameters));
  model_.optimizers = std::move(groups.optimizers);
  options.update.parameters = model_.parameters;
  options.update.optimizers = model_.optimizers;
  options.update.senders = std::move(groups.senders);
  options.update.on_bucket = [this](std::size_t bucket, TimePoint ready, TimePoint done) {
    job_.record_phase(fmt::format("bucket {}", bucket), ready, done);
  };
  options.update.settings = {
      fmt::format("accumulate {}", options_.accumulate),
      options_.loss_scale ? fmt::format("loss scale {}", scaler_.scale) : "no loss scale",
      "plan " + plan::to_string(plan_), fmt::format("seed {}", options_.seed),
      fmt::format("sums on devices {}", static_cast<int>(options_.device_sums))};
  if (gpu_) {
    options.device = gpu_->device();
    options.make_sum = gpu_->sums(options_.device_sums, options_.on_event);
    options.make_gather = gpu_->gathers(options_.device_sums, options_.on_event);
    options.shards_state = options_.shard_state;
  }
  if (embeddings_) {
    options.servers = or_throw(exchange::with_launcher(options_.servers, ::getenv));
    if (!embeddings_->empty()) options.rows = embeddings_.get();
  }
  return or_throw(exchange::make_exchange(job_.world(), std::move(options)));
}

// Frozen parameters and buffers must also match: rank 0 sends them to the other ranks.
void Trainer::Impl::check_untrained() {
  exchange::Sameness same{.what = "models", .item = "frozen parameter or buffer", .lines = {}};
  for (const NamedTensor& named : tensors_.untrained)
    same.lines.push_back(exchange::to_string(adapter::info_of(named)));
  or_throw(exchange::check_same(job_.world(), same, Deadline::after(std::chrono::minutes(5))));
}

exchange::StepContribution Trainer::Impl::with_rates(
    exchange::StepContribution contribution) const {
  const double factor = options_.schedule.factor(exchange().steps());
  for (const OptimizerSpec& optimizer : model_.optimizers)
    contribution.rates.push_back(optimizer.rate * factor);
  return contribution;
}

void Trainer::Impl::check_whole() const {
  if (is_broken_)
    refuse(ErrorCode::kInvalid,
           "an earlier step ended in the middle of its backward pass, which the other ranks "
           "rely on: continue from a checkpoint");
  bound_->check_memory();
}

void Trainer::Impl::zero_grad() {
  bound_->forget_gradients();
  pending_ = {};
  losses_.clear();
}

at::Tensor Trainer::Impl::forward(const std::function<at::Tensor()>& mean_loss) {
  const PhaseScope scope(job_, "forward");
  at::Tensor loss = mean_loss();
  if (!loss.defined() || loss.numel() != 1)
    refuse(ErrorCode::kInvalid, "the loss must be a tensor with one element");
  return loss;
}

// Calls of an accumulation are weighted by their samples: each gradient is scaled to the weight of
// the first. The gradient of the first, or of a single call, stays exactly as libtorch computed it.
void Trainer::Impl::backward(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss,
                             bool is_last) {
  const at::Tensor loss = forward(mean_loss);
  losses_.add(loss, static_cast<double>(samples));
  if (pending_.unit == 0) pending_.unit = samples;
  pending_.samples += samples;
  // A rank with artificial delays holds its gradients back.
  if (is_last && disturbance_.is_none()) bound_->announce(with_rates(contribution_of(pending_)));
  const PhaseScope scope(job_, "backward");
  const double factor =
      loss_scale() * static_cast<double>(samples) / static_cast<double>(pending_.unit);
  bound_->backward(factor == 1 ? loss : loss * factor);
}

void Trainer::Impl::compute(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss,
                            bool is_last) {
  Duration computed{};
  {
    const Stopwatch watch(computed);
    if (!graph_ || !compute_captured(samples, mean_loss)) {
      backward(samples, mean_loss, is_last);
      // The update of several ranks waits for the device anyway. Here the time is this rank's own.
      if (is_last && job_.size() > 1 && exchange().on_device())
        or_throw(gpu_->device()->wait(Deadline::after(std::chrono::minutes(5))));
    }
  }
  if (!disturbance_.is_none())
    std::this_thread::sleep_for(train::sleep_of(disturbance_, job_.rank(), calls_, computed));
}

StepOutcome Trainer::Impl::step(std::uint64_t samples,
                                const std::function<at::Tensor()>& mean_loss) {
  check_whole();
  const Stopwatch watch(in_steps_);
  const std::shared_ptr<void> on_graph_stream = graph_ ? graph_->enter() : nullptr;
  const bool is_last = pending_.calls + 1 == options_.accumulate;
  if (pending_.calls == 0) takes_part_ = bound_->begin();
  try {
    if (samples > 0 && takes_part_) compute(samples, mean_loss, is_last);
    bound_->check_memory();
  } catch (...) {
    is_broken_ = bound_->is_announced();
    throw;
  }
  ++calls_;
  ++pending_.calls;
  if (!is_last) return {};
  const Pending done = std::exchange(pending_, {});
  return complete(contribution_of(done));
}

StepOutcome Trainer::Impl::apply(std::uint64_t samples, double loss) {
  check_whole();
  const Stopwatch watch(in_steps_);
  const auto own = static_cast<double>(samples);
  losses_.clear();
  const StepOutcome outcome =
      complete({.samples = own, .weight = own / loss_scale(), .loss_sum = loss * own});
  // From here on the caller computes at the newest parameters.
  bound_->begin();
  return outcome;
}

// A single rank on a device reads the losses last, so that the update is behind the backward pass
// before it waits for the device.
StepOutcome Trainer::Impl::complete(exchange::StepContribution contribution) {
  const PhaseScope scope(job_, "update");
  const bool reads_last = exchange().on_device() && job_.size() == 1;
  if (!reads_last) contribution.loss_sum += losses_.take();
  exchange::StepTotals result = bound_->complete(with_rates(contribution));
  if (reads_last) result.loss_sum += losses_.take();
  job_.count_step(static_cast<std::uint64_t>(contribution.samples));
  job_.set_step(exchange().steps());
  shards_.count_batches();
  bound_->forget_gradients();
  if (!result.updated && !result.discarded) return {};
  if (options_.loss_scale) count_outcome(result.discarded);
  const double loss = result.samples > 0 ? result.loss_sum / result.samples : 0;
  job_.set_figure("loss", loss);
  return {.loss = loss,
          .samples = static_cast<std::uint64_t>(result.samples),
          .updated = result.updated};
}

// The factor falls with each overflow: after many in a row a smaller one does not help either.
void Trainer::Impl::count_outcome(bool is_discarded) {
  scaler_.ended(is_discarded);
  discarded_in_a_row_ = is_discarded ? discarded_in_a_row_ + 1 : 0;
  if (!is_discarded) return;
  ++discarded_;
  if (discarded_in_a_row_ >= LossScale::kMostDiscarded)
    throw Divergence(
        invalid("the training has diverged: the gradients of {} updates in a row are not finite, "
                "the last at a loss scale of {}",
                discarded_in_a_row_, scaler_.scale));
}

void Trainer::Impl::drain() {
  check_whole();
  const Stopwatch watch(in_steps_);
  exchange::StepContribution rest = contribution_of(std::exchange(pending_, {}));
  rest.loss_sum = losses_.take();
  bound_->drain(with_rates(std::move(rest)));
  shards_.count_batches();
  bound_->forget_gradients();
}

// Sums in float64, so that the running statistics of a hundred ranks lose no precision.
void Trainer::Impl::average(const std::vector<NamedTensor>& tensors) {
  if (tensors.empty()) return;
  std::vector<at::Tensor> parts = {at::ones({1}, at::kDouble)};  // counts the ranks
  for (const NamedTensor& named : tensors)
    parts.push_back(named.tensor.detach().to(at::kCPU, at::kDouble).reshape({-1}));
  const at::Tensor all = at::cat(parts);
  or_throw(exchange().meetings().sum(
      std::span(all.data_ptr<double>(), static_cast<std::size_t>(all.numel()))));
  const at::Tensor means = all / all[0];
  std::int64_t next = 1;
  const at::NoGradGuard no_grad;
  for (const NamedTensor& named : tensors) {
    at::Tensor tensor = named.tensor;
    tensor.copy_(means.narrow(0, next, tensor.numel()).view(tensor.sizes()));
    next += tensor.numel();
  }
}

// Running statistics are linear in their inputs. Averaging them from time to time so gives the same
// result as averaging after every step.
void Trainer::Impl::synchronise_buffers() {
  if (job_.size() == 1 || options_.buffers == Buffers::kLeave) return;
  std::vector<NamedTensor> averaged;
  std::vector<NamedTensor> others;
  const bool averages = options_.buffers == Buffers::kAverage;
  for (const NamedTensor& named : tensors_.untrained)
    if (named.is_buffer)
      (averages && named.tensor.is_floating_point() ? averaged : others).push_back(named);
  average(averaged);
  bound_->broadcast(others);
}

void Trainer::Impl::assign_rows(const std::string& embedding, std::span<const std::uint64_t> keys,
                                std::span<const float> rows) {
  if (!embeddings_)
    refuse(ErrorCode::kInvalid,
           fmt::format("{}: with home=group the rows of an embedding are its parameter `weight`",
                       embedding));
  embeddings_->assign(embedding, keys, rows);
}

double Trainer::Impl::rate() const {
  return model_.optimizers.front().rate * options_.schedule.factor(exchange().steps());
}

TimeSplit Trainer::Impl::times() const {
  const exchange::Statistics inner = exchange().statistics();
  const Duration update = inner.update + bound_->copying();
  // Gradients from backward() outside of step() are not copied inside a step.
  return {.compute = std::max(Duration{}, in_steps_ - update - inner.wait),
          .communicate = update,
          .wait = inner.wait};
}

Trainer::Trainer(Job& job, torch::nn::Module& module, const OptimizerSpec& optimizer,
                 TrainerOptions options)
    : impl_(std::make_unique<Impl>(job, check_untaken(module), optimizer, std::move(options))) {}
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
double Trainer::loss_scale() const { return impl_->loss_scale(); }
std::uint64_t Trainer::discarded() const { return impl_->discarded(); }
std::uint64_t Trainer::steps() const { return impl_->exchange().steps(); }
RateSchedule& Trainer::schedule() { return impl_->schedule(); }
TimeSplit Trainer::times() const { return impl_->times(); }
PolicyFigures Trainer::figures() const {
  const exchange::Statistics statistics = impl_->exchange().statistics();
  const auto& bins = statistics.staleness.bins();
  return {.staleness = {bins.begin(), bins.end()}, .dropped = statistics.dropped};
}
bool Trainer::is_first() const { return impl_->exchange().meetings().is_first(); }
bool Trainer::in_step() const { return impl_->exchange().meetings().in_step(); }
bool Trainer::is_due(std::uint64_t step) { return impl_->exchange().meetings().is_due(step); }
std::vector<double> Trainer::meet(std::vector<double> values) {
  return impl_->bound().meet(std::move(values));
}
std::vector<double> Trainer::sum(std::vector<double> values) {
  return impl_->bound().sum(std::move(values));
}
std::size_t Trainer::state_bytes() { return impl_->exchange().statistics().state_bytes; }
std::size_t Trainer::memory_bytes() const { return impl_->exchange().statistics().memory_bytes; }
Shard Trainer::shard(at::Tensor x, at::Tensor y, const ShardOptions& options) {
  return impl_->shard(std::move(x), std::move(y), options);
}
void Trainer::assign_rows(const std::string& embedding, std::span<const std::uint64_t> keys,
                          std::span<const float> rows) {
  impl_->assign_rows(embedding, keys, rows);
}
checkpoint::Content Trainer::checkpoint() { return impl_->checkpoint(); }
void Trainer::restore(const checkpoint::Reader& reader) { impl_->restore(reader); }

}  // namespace tally
