#include "adapters/torch/group_exchange.h"

#include <array>

#include "base/stopwatch.h"
#include "optimizer/update_rule.h"

namespace tally::adapter {
namespace {

constexpr auto kGroupExchangeSetupTimeout = std::chrono::minutes(5);
// The time limit for other ranks to offer enough gradients.
constexpr auto kOfferTimeout = std::chrono::minutes(5);

Deadline group_deadline() { return Deadline::after(kGroupExchangeSetupTimeout); }

// With backups a thread takes part in the updates, while this thread reads the values of each whole
// version.
exchange::GroupUpdate::Options in_order(exchange::GroupUpdate::Options options) {
  if (options.by_priority && options.on_event)
    options.on_event("schedule=priority: it is fifo, for update=backup needs whole versions");
  options.by_priority = false;
  options.beside = false;
  return options;
}

}  // namespace

GroupExchange::GroupExchange(Job& job, std::vector<NamedTensor> parameters,
                             const exchange::GroupUpdate::Options& options,
                             const policy::Rules& rules)
    : job_(job), rules_(rules), optimizers_(options.optimizers), codec_(options.codec) {
  // Without backups every update waits for all ranks, as bsp does.
  const bool has_backups = rules.update == plan::Update::kBackup && rules.needed < rules.workers;
  if (has_backups) own_world_ = or_throw(job.world().split(0, job.rank(), group_deadline()));
  Communicator& world = own_world_ ? *own_world_ : job.world();
  model_ = std::make_unique<BucketedModule>(world, std::move(parameters),
                                            has_backups ? in_order(options) : options);
  model_->spread_values();
  if (has_backups)
    backup_ = or_throw(
        exchange::BackupExchange::make(world, model_->update(), rules.needed, group_deadline()));
}

GroupExchange::~GroupExchange() { backup_.reset(); }

const std::vector<exchange::ParameterInfo>& GroupExchange::parameters() const {
  return model_->update().parameters();
}

bool GroupExchange::takes_part() const { return policy::takes_part(rules_, job_.rank(), steps_); }

void GroupExchange::follow(std::uint64_t version) {
  if (version == version_) return;
  version_ = version;
  steps_ = first_step_ + version_;
  model_->values_to_devices();
}

// The rank computes at the version that steps() has reported, even if there is a newer one. A rank
// that has reached the step of a meeting so does not wait for the gradients of other ranks.
bool GroupExchange::begin() { return takes_part(); }

void GroupExchange::announce(const StepGift& gift) {
  // With backups the exchange decides about whole gradients only.
  if (backup_ || !takes_part()) return;
  model_->update().set_rates(gift.rates);
  model_->announce(gift.contribution);
}

StepResult GroupExchange::complete_together(const StepGift& gift, bool draining, double* drained) {
  model_->update().set_rates(gift.rates);
  const bool counts = takes_part();
  const std::array<double, 2> sums = {counts ? gift.loss_sum : 0, draining ? 1.0 : 0.0};
  const exchange::UpdateTotals totals =
      model_->complete(counts ? gift.contribution : exchange::StepContribution{}, sums);
  if (drained != nullptr) *drained = totals.sums[1];
  if (totals.samples == 0) return {};
  ++steps_;
  if (counts && gift.contribution.samples > 0) staleness_.add(0);
  return {.samples = totals.samples, .loss_sum = totals.sums[0], .updated = true};
}

StepResult GroupExchange::offer(const StepGift& gift) {
  const std::vector<std::size_t> ready = model_->gather();
  exchange::BackupExchange::Taken taken;
  {
    const Stopwatch watch(waited_);
    taken = or_throw(backup_->exchange({.version = version_,
                                        .contribution = gift.contribution,
                                        .sums = {gift.loss_sum},
                                        .rates = gift.rates,
                                        .ready = ready},
                                       Deadline::after(kOfferTimeout)));
  }
  if (taken.counted) staleness_.add(0);
  if (!taken.counted && gift.contribution.samples > 0) ++dropped_;
  follow(taken.version);
  const double loss = taken.totals.sums.empty() ? 0 : taken.totals.sums[0];
  return {.samples = taken.totals.samples, .loss_sum = loss, .updated = taken.totals.samples > 0};
}

StepResult GroupExchange::complete(const StepGift& gift) {
  return backup_ ? offer(gift) : complete_together(gift, false, nullptr);
}

// The first call includes the gradients of an unfinished accumulation.
void GroupExchange::drain(const StepGift& first) {
  if (backup_) {
    or_throw(backup_->drain(Deadline::after(kOfferTimeout)));
    return follow(backup_->version());
  }
  StepGift gift = first;
  for (double drained = 0; drained < job_.size();) {
    complete_together(gift, true, &drained);
    model_->forget_gradients();
    gift.contribution = {};
    gift.loss_sum = 0;
  }
}

std::vector<double> GroupExchange::sum(std::vector<double> values) {
  if (!values.empty()) or_throw(job_.world().allreduce(std::span(values)));
  return values;
}

std::vector<double> GroupExchange::meet(std::vector<double> values) {
  if (!backup_) return sum(std::move(values));
  auto farthest = static_cast<std::int64_t>(backup_->version());
  or_throw(job_.world().allreduce(std::span(&farthest, 1), ReduceOp::kMax));
  or_throw(backup_->catch_up(static_cast<std::uint64_t>(farthest), group_deadline()));
  follow(static_cast<std::uint64_t>(farthest));
  return sum(std::move(values));
}

void GroupExchange::broadcast(const std::vector<NamedTensor>& tensors) {
  if (job_.size() == 1) return;
  for (const NamedTensor& named : tensors) {
    const at::Tensor host = named.tensor.detach().to(at::kCPU).contiguous();
    const std::span<std::byte> bytes = bytes_of(host);
    or_throw(job_.world().run({.operation = Operation::kBroadcast,
                               .input = bytes.data(),
                               .output = bytes.data(),
                               .count = bytes.size(),
                               .type = DataType::kUInt8,
                               .root = 0}));
    copy_into(named.tensor.detach(), host);
  }
}

// The thread for backups works in parallel to this one: only waiting and copying count here.
exchange::UpdateTimes GroupExchange::times() const {
  if (backup_) return {.update = model_->copying(), .wait = waited_};
  const exchange::UpdateTimes inner = model_->update().times();
  return {.update = inner.update + model_->copying(), .wait = inner.wait};
}

SavedCourse GroupExchange::course() const {
  return {.steps = steps_, .order = model_->order(), .parameter_steps = model_->update().steps()};
}

std::size_t GroupExchange::state_bytes() {
  std::size_t bytes = 0;
  for (const exchange::SliceState& slice : or_throw(model_->update().states()))
    for (const std::span<std::byte> array : slice.state) bytes += array.size();
  return bytes;
}

void GroupExchange::restore(const checkpoint::Reader& reader, const SavedCourse& course) {
  model_->settle();
  // Before the first update there is no state, and the first step may still set the order.
  if (course.steps > 0 || !course.order.empty()) model_->use_order(course.order);
  model_->update().steps() = course.parameter_steps;
  model_->update().set_updates(course.steps);
  steps_ = course.steps;
  first_step_ = steps_ - version_;
  or_throw(model_->update().make_state());
  // Neighbours may still use the values that the restore overwrites.
  or_throw(job_.world().barrier());
  if (model_->update().writes_values())
    for (std::size_t p = 0; p < parameters().size(); ++p)
      or_throw(reader.read(parameters()[p].name, 0, model_->update().values(p)));
  model_->adopt_values();
  for (const exchange::SliceState& slice : or_throw(model_->update().states())) {
    const exchange::ParameterInfo& info = parameters()[slice.parameter];
    const auto names = state_names_of(info, optimizers_[info.group]);
    for (std::size_t k = 0; k < names.size(); ++k)
      or_throw(reader.read_state(info.name + "/" + names[k], slice.first, slice.state[k]));
  }
  or_throw(exchange::read_states(reader, parameters(), codec_states(), sender()));
}

std::vector<exchange::CodecTensor> GroupExchange::codec_tensors() const {
  return exchange::codec_tensors(codec_, parameters(), sender().of);
}

std::vector<std::string> state_names_of(const exchange::ParameterInfo& parameter,
                                        const OptimizerSpec& optimizer) {
  std::vector<std::string> names = optimizer::state_names(optimizer);
  if (parameter.type == DataType::kFloat16 || parameter.type == DataType::kBFloat16)
    names.emplace_back("master");
  return names;
}

}  // namespace tally::adapter
