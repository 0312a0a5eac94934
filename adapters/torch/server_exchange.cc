#include "adapters/torch/server_exchange.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/stopwatch.h"
#include "optimizer/update_rule.h"

// One update of a worker:
//   begin()      policy::next_step() chooses whether to take part, push and pull.
//   announce()   allows push_ready() to push complete parts during backward. This requires that the
//                gradients are final: without clipping, scaling or sums of earlier steps.
//   complete()   gather() and prepare() finish the gradient. push_rest() pushes the remaining
//                parts, and pull_all() reads values unless the push does so in one request.
//                take_in() advances the worker's clock and version.
namespace tally::adapter {
namespace {

bool is_plain(const std::vector<OptimizerSpec>& optimizers, const plan::CodecSpec& codec) {
  // dgc moves the momentum of sgd to the senders, so the optimizer on servers looks stateless.
  if (codec.kind == plan::Codec::kDgc) return false;
  return std::all_of(optimizers.begin(), optimizers.end(), [](const OptimizerSpec& spec) {
    return spec.kind == OptimizerKind::kSgd && optimizer::state_arrays(spec) == 0;
  });
}

const ServerExchange::Options& checked(const ServerExchange::Options& options) {
  for (const OptimizerSpec& spec : options.optimizers)
    if (optimizer::is_layerwise(spec))
      refuse(ErrorCode::kInvalid,
             fmt::format("{} needs norms over whole parameters, which servers have in parts: use "
                         "home=group, or another optimizer",
                         to_string(spec)));
  return options;
}

}  // namespace

ServerExchange::ServerExchange(Job& job, Options options)
    : rank_(job.rank()),
      ranks_(job.size()),
      options_(checked(options)),
      plain_(is_plain(options_.optimizers, options_.codec)),
      place_(job, options_.servers, options_.on_event),
      tables_(client(), {.parameters = options_.infos,
                         .optimizers = options_.optimizers,
                         .plan = options_.plan,
                         .workers = job.size(),
                         .seed = options_.seed,
                         .codec = options_.codec,
                         .other_tables = has_embeddings() ? options_.embeddings->names()
                                                          : std::vector<std::string>()}),
      is_collected_(options_.infos.size()),
      is_told_(options_.infos.size()),
      next_(tables_.tables().size()) {
  if (has_embeddings())
    options_.embeddings->connect(
        client(),
        {.optimizer = options_.optimizers.front(), .plan = options_.plan, .workers = ranks_});
  for (const Table& table : tables_.tables()) pending_.push_back(table.part_owners);
  make_coded();
  if (rank_ == 0) assign_values();
  sum({});
  place_views();
  pull_first();
  // No rank pushes before all ranks have the same values.
  sum({});
  hooks_ =
      std::make_unique<GradientHooks>(options_.parameters, [this](std::size_t i) { arrived(i); });
}

ServerExchange::~ServerExchange() {
  hooks_.reset();
  for (const NamedTensor& parameter : options_.parameters) {
    at::Tensor tensor = parameter.tensor;
    tensor.mutable_grad() = at::Tensor();
    if (tensor.device().is_cpu()) tensor.set_data(tensor.detach().clone());
  }
}

bool ServerExchange::begin() {
  if (has_chosen_) return choice_.takes_part;
  has_chosen_ = true;
  choice_ = policy::next_step(options_.rules, me_, /*is_last=*/false);
  // A worker that cannot update its own copy as servers do pulls the new values.
  if (!choice_.pull && !plain_) {
    choice_.pull = true;
    choice_.apply_locally = false;
    choice_.one_request = choice_.push;
  }
  return choice_.takes_part;
}

void ServerExchange::announce(const StepGift& gift) {
  begin();
  const exchange::StepContribution& own = gift.contribution;
  const bool is_final = !options_.clip_norm && !options_.clip_value && kept_.empty() &&
                        own.weight == own.samples && own.samples > 0;
  if (!is_final || !choice_.push || is_too_late()) return;
  announced_ = true;
  gift_ = gift;
}

bool ServerExchange::is_too_late() const {
  std::uint64_t newest = client().newest_version(first_table());
  for (const Table& table : tables_.tables())
    newest = std::max(newest, client().newest_version(table.id));
  return policy::is_too_late(options_.rules, me_, newest, has_begun_);
}

void ServerExchange::arrived(std::size_t parameter) {
  if (announced_ && is_told_[parameter])
    refuse(ErrorCode::kInvalid,
           fmt::format(
               "backward added to the gradient of {} twice, as checkpointed activations do: call "
               "backward() yourself, then apply()",
               options_.parameters[parameter].name));
  if (announced_ || options_.parameters[parameter].tensor.device().is_cpu()) collect(parameter);
  if (!announced_) return;
  is_told_[parameter] = true;
  const ServerTables::Place& place = tables_.places()[parameter];
  for (std::uint32_t part = place.first_part; part < place.end_part; ++part)
    --pending_[place.table][part];
  push_ready(place.table);
}

// Memory that no push uses any more. With kbatch servers may hold earlier pushes until this worker
// has pushed again.
ServerTables::Gradients& ServerExchange::gradients() {
  if (room_ != nullptr) return *room_;
  for (const auto& room : rooms_) {
    const bool is_free = std::all_of(room->pushes.begin(), room->pushes.end(),
                                     [&](server::Ticket push) { return client().done(push); });
    if (!is_free) continue;
    settle(*room);
    room_ = room.get();
    return *room_;
  }
  const auto most =
      static_cast<std::size_t>(options_.rules.has_rounds() ? options_.rules.needed + 1 : 2);
  if (rooms_.size() < most) {
    rooms_.push_back(tables_.make_gradients());
  } else {
    settle(*rooms_.front());
    std::rotate(rooms_.begin(), rooms_.begin() + 1, rooms_.end());
  }
  room_ = rooms_.back().get();
  return *room_;
}

void ServerExchange::collect(std::size_t i) {
  at::Tensor parameter = options_.parameters[i].tensor;
  if (!parameter.grad().defined()) return;
  const at::Tensor& view = gradients().views[i];
  const Stopwatch watch(copying_);
  copy_into(view, parameter.grad());
  if (parameter.device().is_cpu() && view.scalar_type() == parameter.scalar_type())
    parameter.mutable_grad() = view;
  is_collected_[i] = true;
}

// Collects all gradients of this update in the room; a missing gradient counts as zero.
void ServerExchange::gather() {
  for (std::size_t i = 0; i < options_.parameters.size(); ++i) {
    if (!announced_) is_collected_[i] = false;
    if (!is_collected_[i] && options_.parameters[i].tensor.grad().defined()) collect(i);
    if (!is_collected_[i]) gradients().views[i].zero_();
  }
}

// Computes the mean over this worker's samples, clips it, and adds the sum of earlier steps.
void ServerExchange::prepare(const StepGift& gift) {
  const at::NoGradGuard no_grad;
  const exchange::StepContribution& own = gift.contribution;
  if (own.samples > 0 && own.weight != own.samples)
    for (at::Tensor& flat : all_gradients()) flat.mul_(own.weight / own.samples);
  clip();
  if (kept_.empty()) return;
  for (std::size_t t = 0; t < kept_.size(); ++t) gradients().flat[t].add_(kept_[t]);
  kept_.clear();
}

void ServerExchange::clip() {
  if (options_.clip_value)
    for (at::Tensor& flat : all_gradients())
      flat.clamp_(-*options_.clip_value, *options_.clip_value);
  if (!options_.clip_norm) return;
  double squares = 0;
  for (const at::Tensor& flat : all_gradients()) {
    const double norm = flat.norm().item<double>();
    squares += norm * norm;
  }
  constexpr double kTiny = 1e-6;
  const double factor = *options_.clip_norm / (std::sqrt(squares) + kTiny);
  if (factor > 1) return;
  for (at::Tensor& flat : all_gradients()) flat.mul_(factor);
}

// The gradients of tables, and of the rows that embeddings have read.
std::vector<at::Tensor> ServerExchange::all_gradients() {
  std::vector<at::Tensor> all = gradients().flat;
  for (const SparseEmbeddingImpl::Used& used : gradients().rows)
    if (used.gradient.defined() && used.gradient.numel() > 0) all.push_back(used.gradient);
  return all;
}

// asp:push=P: the gradients of P steps are pushed as their sum.
void ServerExchange::add_up() {
  const at::NoGradGuard no_grad;
  if (kept_.empty()) {
    for (const at::Tensor& flat : gradients().flat) kept_.push_back(flat.clone());
  } else {
    for (std::size_t t = 0; t < kept_.size(); ++t) kept_[t].add_(gradients().flat[t]);
  }
}

StepResult ServerExchange::complete(const StepGift& gift) {
  begin();
  const bool has_rounds = options_.rules.has_rounds();
  const bool has = choice_.takes_part && gift.contribution.samples > 0;
  bool pushes = choice_.push && (has || has_rounds);
  if (pushes && has && is_too_late()) {
    pushes = false;
    ++dropped_;
  }
  gift_ = gift;
  if (!has) gift_.contribution = {};
  if (has_embeddings()) gradients().rows = options_.embeddings->take();
  if (has || pushes) {
    gather();
    if (!announced_) prepare(gift_);
    if (has && !choice_.push) add_up();
  }
  if (choice_.apply_locally && has) move_own_copy(gift_);
  if (pushes) push_rest();
  // The gradients of rows are not summed over steps: they are pushed in every step.
  if (has_embeddings() && (pushes || (has && !choice_.push))) push_rows();
  if (!pushes && options_.rules.update == plan::Update::kSsp) tell_clock(choice_.clock);
  const bool is_read = pushes && choice_.one_request;
  const server::PullOptions facts{.least_version = choice_.read.least_version,
                                  .least_clock = choice_.read.least_clock};
  if (choice_.pull && !is_read) pull_all(facts, requests_);
  if (choice_.pull) await_rows(facts, requests_);
  Reading reading;
  if (pushes) push_low_rank(reading);
  for (const server::Ticket request : requests_) {
    const server::Completion completion = wait(request);
    if (is_read) note(completion);
    reading.take(completion);
  }
  requests_.clear();
  follow(reading);
  if (pushes && (choice_.wait_for_push || has_embeddings()) &&
      options_.rules.update != plan::Update::kKbatch)
    settle(gradients());
  take_in(choice_, reading);
  return {.samples = gift_.contribution.samples,
          .loss_sum = has ? gift.loss_sum : 0,
          .updated = has || has_rounds};
}

void ServerExchange::take_in(const policy::StepChoice& step, const Reading& reading) {
  me_ = policy::after_step(options_.rules, me_, step, reading.read.value_or(policy::Read{}));
  end_update();
  if (reading.read || step.apply_locally) values_to_parameters();
}

// Resets the state of the update for the next one.
void ServerExchange::end_update() {
  has_chosen_ = announced_ = has_begun_ = is_counted_ = false;
  is_told_.assign(is_told_.size(), false);
  room_ = nullptr;
  for (std::size_t t = 0; t < next_.size(); ++t) {
    next_[t] = 0;
    pending_[t] = tables_.tables()[t].part_owners;
  }
}

void ServerExchange::forget_gradients() {
  for (const NamedTensor& parameter : options_.parameters) {
    at::Tensor tensor = parameter.tensor;
    tensor.mutable_grad() = at::Tensor();
  }
  is_collected_.assign(is_collected_.size(), false);
}

// Workers that do not wait for each other keep their current parameters. The clock tells the others
// not to wait for this worker.
void ServerExchange::drain(const StepGift& first) {
  if (options_.rules.has_rounds())
    refuse(
        ErrorCode::kInvalid,
        "drain() is not offered where servers wait for every worker's gradient: call step() with "
        "0 samples instead");
  if (first.contribution.samples > 0) complete(first);
  flush();
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 62;
  tell_clock(kEnd);
  for (const server::Ticket request : requests_) wait(request);
  requests_.clear();
  sum({});
  refresh();
}

// With subset:K other workers may have made the next update before a worker that is not drawn
// reads.
bool ServerExchange::in_step() const { return options_.rules.update == plan::Update::kBsp; }

std::uint64_t ServerExchange::known_version() const {
  return std::max(client().newest_version(first_table()), me_.version);
}

// Without rounds, N gradients make a step.
std::uint64_t ServerExchange::steps() const {
  std::uint64_t made = me_.clock - first_clock_;
  if (options_.rules.has_rounds()) {
    made = me_.version - first_version_;
  } else if (options_.rules.update == plan::Update::kAsp) {
    made = (known_version() - first_version_) * options_.rules.push_every /
           static_cast<std::uint64_t>(ranks_);
  }
  return std::max(first_step_ + made, met_step_);
}

}  // namespace tally::adapter
