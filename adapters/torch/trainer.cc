#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "adapters/torch/bound_exchange.h"
#include "adapters/torch/gradient_hooks.h"
#include "adapters/torch/server_options.h"
#include "adapters/torch/trainer_impl.h"
#include "base/clock.h"
#include "base/stopwatch.h"
#include "exchange/check_same.h"
#include "exchange/lane/codec_groups.h"
#include "exchange/server/server_exchange.h"
#include "exchange/server/server_place.h"
#include "policy/rules.h"
#include "server/snapshot/row_snapshots.h"

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

exchange::ParameterInfo info_of(const NamedTensor& parameter, std::size_t group) {
  if (!parameter.tensor.is_floating_point())
    refuse(ErrorCode::kInvalid, fmt::format("{} must have a real type", parameter.name));
  return {.name = parameter.name,
          .type = adapter::data_type_of(parameter.tensor, parameter.name),
          .shape = adapter::shape_of(parameter.tensor),
          .group = group};
}

std::vector<std::string> lines_of(const std::vector<exchange::ParameterInfo>& parameters) {
  std::vector<std::string> lines;
  for (const exchange::ParameterInfo& parameter : parameters)
    lines.push_back(exchange::to_string(parameter));
  return lines;
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

std::vector<std::string> names_of(const std::vector<adapter::NamedEmbedding>& embeddings) {
  std::vector<std::string> names;
  for (const adapter::NamedEmbedding& named : embeddings) names.push_back(named.name);
  return names;
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

void check_options(const TrainerOptions& options) {
  if (options.accumulate < 1) refuse(ErrorCode::kInvalid, "accumulate must be at least 1");
  if (options.clip_norm && !(*options.clip_norm > 0))
    refuse(ErrorCode::kInvalid, "clip_norm must be above 0");
  if (options.clip_value && !(*options.clip_value > 0))
    refuse(ErrorCode::kInvalid, "clip_value must be above 0");
}

// A group clips the decoded mean, which is momentum after the warm-up. The senders' state would
// keep the unclipped mean.
void check_clipping(const TrainerOptions& options, const plan::Plan& plan) {
  if (plan.codec.kind != plan::Codec::kOnebitAdam || plan.home == plan::Home::kServer) return;
  if (!options.clip_norm && !options.clip_value) return;
  refuse(ErrorCode::kInvalid,
         fmt::format("{} with codec={} in the group would clip momentum after the warm-up, not "
                     "gradients: leave it out, or use home=server, where each worker clips its own",
                     options.clip_norm ? "clip_norm" : "clip_value", plan::to_string(plan.codec)));
}

}  // namespace

Trainer::Impl::Impl(Job& job, torch::nn::Module& module, const OptimizerSpec& optimizer,
                    TrainerOptions options)
    : job_(job),
      options_(std::move(options)),
      plan_(or_throw(plan::parse_plan(options_.plan))),
      optimizers_(optimizers_of(optimizer, options_.groups)),
      embeddings_(plan_.home == plan::Home::kServer
                      ? std::make_unique<adapter::ServerEmbeddings>(module)
                      : nullptr),
      embedding_names_(names_of(adapter::embeddings_of(module))),
      tensors_(adapter::tensors_of(module)),
      disturbance_(disturbance_of(options_)) {
  check_options(options_);
  check_clipping(options_, plan_);
  check_alone(module, plan_);
  if (options_.keep_freed_memory) keep_freed_memory();
  if (tensors_.trained.empty() && !(embeddings_ && !embeddings_->empty()))
    refuse(ErrorCode::kInvalid, "the module has no parameter that requires a gradient");
  check_untrained();
  model_ = std::make_unique<adapter::BoundExchange>(make_exchange(), tensors_.trained);
  model_->broadcast(tensors_.frozen);
  model_->broadcast(tensors_.buffers);
  model_->begin();
  for (const NamedTensor& parameter : tensors_.trained)
    placed_.push_back(parameter.tensor.detach());
}

std::unique_ptr<exchange::Exchange> Trainer::Impl::make_exchange() {
  or_throw(plan::check_exchanges_gradients(plan_, "the trainer"));
  const policy::Rules rules = or_throw(policy::rules_of(plan_, job_.size(), options_.seed));
  exchange::GroupUpdate::Options update{.parameters = {},
                                        .optimizers = {},
                                        .bucket_bytes = options_.bucket_bytes,
                                        .clip_value = options_.clip_value,
                                        .clip_norm = options_.clip_norm,
                                        .codec = plan_.codec,
                                        .by_priority = plan_.schedule == plan::Schedule::kPriority,
                                        .bytes_in_flight = plan_.bytes_in_flight,
                                        .on_event = options_.on_event,
                                        .seed = options_.seed,
                                        .beside = !options_.in_place};
  for (const NamedTensor& parameter : tensors_.trained)
    infos_.push_back(info_of(parameter, group_of(parameter, options_.groups)));
  exchange::CodecGroups groups = or_throw(exchange::split_groups(plan_.codec, optimizers_, infos_));
  update.parameters = infos_;
  optimizers_ = std::move(groups.optimizers);
  update.optimizers = optimizers_;
  update.senders = std::move(groups.senders);
  update.on_bucket = [this](std::size_t bucket, TimePoint ready, TimePoint done) {
    job_.record_phase(fmt::format("bucket {}", bucket), ready, done);
  };
  update.settings = {fmt::format("accumulate {}", options_.accumulate),
                     "plan " + plan::to_string(plan_), fmt::format("seed {}", options_.seed)};
  if (plan_.home == plan::Home::kServer) {
    // Compare the models before a rank defines tables for them.
    or_throw(exchange::check_same(job_.world(),
                                  {"models", "parameter", lines_of(update.parameters)},
                                  Deadline::after(std::chrono::minutes(5))));
    or_throw(exchange::check_same(job_.world(), {"trainers", "setting", update.settings},
                                  Deadline::after(std::chrono::minutes(5))));
    return make_server_exchange(update, rules);
  }
  return or_throw(exchange::GroupExchange::make(
      job_.world(),
      {.update = std::move(update),
       .rules = rules,
       .initial =
           [this](std::size_t p, std::span<std::byte> values) {
             const at::Tensor& parameter = tensors_.trained[p].tensor;
             adapter::copy_into(adapter::view_of(values, parameter), parameter.detach());
           }},
      Deadline::after(std::chrono::minutes(5))));
}

std::unique_ptr<exchange::Exchange> Trainer::Impl::make_server_exchange(
    const exchange::GroupUpdate::Options& update, const policy::Rules& rules) {
  const ServerOptions servers = adapter::with_launcher(options_.servers, ::getenv);
  auto place = or_throw(exchange::ServerPlace::make(job_.world(), adapter::place_options(servers),
                                                    options_.on_event));
  return or_throw(exchange::ServerExchange::make(
      std::move(place), {.tables = {.parameters = update.parameters,
                                    .optimizers = optimizers_,
                                    .rules = rules,
                                    .plan = plan::to_string(plan_),
                                    .seed = options_.seed,
                                    .codec = plan_.codec,
                                    .senders = update.senders,
                                    .rank = job_.rank()},
                         .clip = {.value = options_.clip_value, .norm = options_.clip_norm},
                         .rows = embeddings_->empty() ? nullptr : embeddings_.get(),
                         .initial = adapter::initial_values(tensors_.trained),
                         .snapshot_name = [](std::uint64_t step) {
                           return server::row_snapshot_name(
                               step, static_cast<std::uint64_t>(steady_now().count()));
                         }}));
}

// Frozen parameters and buffers must also match: rank 0 sends them to the other ranks.
void Trainer::Impl::check_untrained() {
  exchange::Sameness same{.what = "models", .item = "frozen parameter or buffer", .lines = {}};
  for (const auto* list : {&tensors_.frozen, &tensors_.buffers})
    for (const NamedTensor& named : *list)
      same.lines.push_back(
          exchange::to_string({.name = named.name,
                               .type = adapter::data_type_of(named.tensor, named.name),
                               .shape = adapter::shape_of(named.tensor)}));
  or_throw(exchange::check_same(job_.world(), same, Deadline::after(std::chrono::minutes(5))));
}

exchange::StepContribution Trainer::Impl::with_rates(
    exchange::StepContribution contribution) const {
  const double factor = options_.schedule.factor(steps());
  for (const OptimizerSpec& optimizer : optimizers_)
    contribution.rates.push_back(optimizer.rate * factor);
  return contribution;
}

void Trainer::Impl::check_whole() const {
  if (is_broken_)
    refuse(ErrorCode::kInvalid,
           "an earlier step ended in the middle of its backward pass, which the other ranks "
           "rely on: continue from a checkpoint");
  check_memory();
}

// The exchange would go on to update the memory that the parameter had before.
void Trainer::Impl::check_memory() const {
  for (std::size_t p = 0; p < placed_.size(); ++p)
    if (!tensors_.trained[p].tensor.is_alias_of(placed_[p]))
      refuse(ErrorCode::kInvalid,
             fmt::format("{} no longer lies where the trainer placed it: torch::load(), to() or "
                         "set_data() has replaced its memory; load values before the trainer "
                         "is made, or restore() a checkpoint",
                         tensors_.trained[p].name));
}

void Trainer::Impl::zero_grad() {
  model_->forget_gradients();
  pending_ = {};
}

// Operations wait for the parameters of the last update when they use them.
at::Tensor Trainer::Impl::forward(const std::function<at::Tensor()>& mean_loss) {
  const PhaseScope scope(job_, "forward");
  const std::unique_ptr<adapter::FirstUse> awaits = model_->await_use();
  return mean_loss();
}

// Calls of an accumulation are weighted by their samples: each gradient is scaled to the weight of
// the first. The gradient of the first, or of a single call, stays exactly as libtorch computed it.
void Trainer::Impl::backward(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss,
                             bool is_last) {
  const at::Tensor loss = forward(mean_loss);
  if (!loss.defined() || loss.numel() != 1)
    refuse(ErrorCode::kInvalid, "the loss must be a tensor with one element");
  if (pending_.unit == 0) pending_.unit = samples;
  pending_.samples += samples;
  // A rank with artificial delays holds its gradients back.
  if (is_last && disturbance_.is_none()) model_->announce(with_rates(pending_.contribution()));
  const PhaseScope scope(job_, "backward");
  if (samples != pending_.unit) {
    (loss * (static_cast<double>(samples) / static_cast<double>(pending_.unit))).backward();
  } else {
    loss.backward();
  }
  pending_.loss_sum += loss.item<double>() * static_cast<double>(samples);
}

void Trainer::Impl::compute(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss,
                            bool is_last) {
  Duration computed{};
  {
    const Stopwatch watch(computed);
    backward(samples, mean_loss, is_last);
  }
  if (disturbance_.is_none()) return;
  const Stopwatch watch(disturbed_);
  std::this_thread::sleep_for(train::sleep_of(disturbance_, job_.rank(), calls_, computed));
}

StepOutcome Trainer::Impl::step(std::uint64_t samples,
                                const std::function<at::Tensor()>& mean_loss) {
  check_whole();
  const Stopwatch watch(in_steps_);
  const bool is_last = pending_.calls + 1 == options_.accumulate;
  if (pending_.calls == 0) takes_part_ = model_->begin();
  try {
    if (samples > 0 && takes_part_) compute(samples, mean_loss, is_last);
    check_memory();
  } catch (...) {
    is_broken_ = model_->is_announced();
    throw;
  }
  ++calls_;
  ++pending_.calls;
  if (!is_last) return {};
  const Pending done = std::exchange(pending_, {});
  return complete(done.contribution());
}

StepOutcome Trainer::Impl::apply(std::uint64_t samples, double loss) {
  check_whole();
  const Stopwatch watch(in_steps_);
  const auto own = static_cast<double>(samples);
  const StepOutcome outcome = complete({.samples = own, .weight = own, .loss_sum = loss * own});
  // From here on the caller computes at the newest parameters.
  model_->settle();
  model_->begin();
  return outcome;
}

StepOutcome Trainer::Impl::complete(const exchange::StepContribution& contribution) {
  const PhaseScope scope(job_, "update");
  const exchange::StepTotals result = model_->complete(with_rates(contribution));
  job_.count_step(static_cast<std::uint64_t>(contribution.samples));
  job_.set_step(steps());
  count_batches();
  model_->forget_gradients();
  if (!result.updated) return {};
  const double loss = result.samples > 0 ? result.loss_sum / result.samples : 0;
  job_.set_figure("loss", loss);
  return {.loss = loss, .samples = static_cast<std::uint64_t>(result.samples), .updated = true};
}

void Trainer::Impl::drain() {
  check_whole();
  const Stopwatch watch(in_steps_);
  const Pending rest = std::exchange(pending_, {});
  model_->drain(with_rates(rest.contribution()));
  count_batches();
  model_->settle();
  model_->forget_gradients();
}

void Trainer::Impl::assign_rows(const std::string& embedding, std::span<const std::uint64_t> keys,
                                std::span<const float> rows) {
  if (!embeddings_)
    refuse(ErrorCode::kInvalid,
           fmt::format("{}: with home=group the rows of an embedding are its parameter `weight`",
                       embedding));
  embeddings_->assign(embedding, keys, rows);
}

TimeSplit Trainer::Impl::times() const {
  const exchange::Statistics inner = model_->exchange().statistics();
  const Duration update = inner.update + model_->copying();
  // Gradients from backward() outside of step() are not copied inside a step.
  return {.compute = std::max(Duration{}, in_steps_ - update - inner.wait),
          .communicate = update,
          .wait = inner.wait};
}

PolicyFigures Trainer::Impl::figures() const {
  const exchange::Statistics statistics = model_->exchange().statistics();
  const auto& bins = statistics.staleness.bins();
  return {.staleness = {bins.begin(), bins.end()}, .dropped = statistics.dropped};
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
void Trainer::settle() { impl_->settle(); }
void Trainer::synchronise_buffers() { impl_->synchronise_buffers(); }
double Trainer::rate() const { return impl_->rate(); }
std::uint64_t Trainer::steps() const { return impl_->steps(); }
RateSchedule& Trainer::schedule() { return impl_->schedule(); }
TimeSplit Trainer::times() const { return impl_->times(); }
PolicyFigures Trainer::figures() const { return impl_->figures(); }
bool Trainer::is_first() const { return impl_->is_first(); }
bool Trainer::in_step() const { return impl_->in_step(); }
std::vector<double> Trainer::meet(std::vector<double> values) {
  return impl_->meet(std::move(values));
}
bool Trainer::is_due(std::uint64_t step) { return impl_->is_due(step); }
std::size_t Trainer::state_bytes() { return impl_->state_bytes(); }
std::size_t Trainer::memory_bytes() const { return impl_->memory_bytes(); }
std::vector<double> Trainer::sum(std::vector<double> values) {
  return impl_->sum(std::move(values));
}
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
