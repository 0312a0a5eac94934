#include "apps/train/training.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "adapters/torch/precision_scope.h"
#include "adapters/torch/tensors.h"
#include "apps/tally/launch/launcher.h"
#include "apps/tally/outputs.h"
#include "apps/train/evaluation.h"
#include "base/clock.h"
#include "base/counted.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/rng.h"
#include "policy/rules.h"
#include "process/interrupt.h"

namespace tally::app {

using adapter::or_throw;

namespace {

// Points of training loss in a record, in addition to those of evaluations.
constexpr std::uint64_t kCurvePoints = 200;
constexpr auto kLiveInterval = std::chrono::milliseconds(200);
constexpr auto kLineInterval = std::chrono::seconds(10);

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Duration duration_of(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

bool has_graphs(const Training::Parts& with) {
  return with.options.graphs && with.why_no_graphs.empty();
}

// `report` takes the sentences of the trainer.
TrainerOptions trainer_options(const Training::Parts& with,
                               std::function<void(const std::string& sentence)> report) {
  const TrainOptions& options = with.options;
  const Preparation& prepared = with.prepared;
  TrainerOptions result{.plan = plan::to_string(prepared.plan),
                        .seed = options.seed,
                        .accumulate = options.accumulate,
                        .buffers = options.buffers == "average"     ? Buffers::kAverage
                                   : options.buffers == "broadcast" ? Buffers::kBroadcast
                                                                    : Buffers::kLeave,
                        .groups = {},
                        .schedule = prepared.schedule,
                        .replica = options.replica == "rank" ? Replica::kRank : Replica::kHost,
                        .in_place = options.in_place,
                        .shard_state = options.shard_state,
                        .straggle = options.straggle,
                        .delay = options.delay,
                        .servers = with.servers};
  if (with.job.rank() == 0) result.on_event = std::move(report);
  if (options.precision == "float16") result.loss_scale = LossScale{.initial = options.loss_scale};
  if (options.clip_norm > 0) result.clip_norm = options.clip_norm;
  if (options.clip_value > 0) result.clip_value = options.clip_value;
  result.graphs = has_graphs(with);
  const bool adapts = prepared.optimizer.kind == OptimizerKind::kLamb ||
                      prepared.optimizer.kind == OptimizerKind::kLars;
  if (prepared.optimizer.weight_decay > 0 || adapts)
    result.groups.push_back(without_decay(prepared.optimizer));
  return result;
}

DivisionOptions division_options(const Training::Parts& with) {
  // asp, kbatch, kasync and softsync count gradients, of any workers. Plans without gradients have
  // no rules.
  const auto rules = policy::rules_of(with.prepared.plan, with.job.size(), with.options.seed);
  const bool counts_gradients =
      rules.has_value() && (rules->update == plan::Update::kAsp || rules->counts_gradients());
  return {.strategy = with.prepared.strategy,
          .size = with.prepared.train->size(),
          .seed = with.options.seed,
          .batch = with.options.batch,
          .rank = with.job.rank(),
          .workers = with.job.size(),
          .step_has_all_workers = !counts_gradients};
}

// The trainer captures steps with the most samples.
DeviceBatches::Options batch_options(const Training::Parts& with, const DataDivision& division) {
  return {.device = with.device,
          .channels_last = has_channels_last(with.options.channels_last,
                                             with.prepared.has_convolutions, with.device),
          .fixed = has_graphs(with) ? division.order().largest_batch() : 0};
}

// Seeds this rank's random numbers from seed, rank and step alone.
void seed_torch(std::uint64_t seed, Rank rank, std::uint64_t step) {
  Rng rng(seed);
  Rng mixed(rng.next() ^ Rng(static_cast<std::uint64_t>(rank) + 1).next() ^ (step << 1));
  torch::manual_seed(mixed.next());
}

}  // namespace

Training::Training(Parts parts)
    : with_(std::move(parts)),
      control_(with_.prepared.control),
      reported_(std::make_shared<Reported>()),
      trainer_(with_.job, with_.model, with_.prepared.optimizer,
               trainer_options(with_,
                               [reported = reported_](const std::string& sentence) {
                                 fmt::print(stderr, "{}\n", sentence);
                                 const MutexLock lock(reported->mutex);
                                 reported->sentences.push_back(sentence);
                               })),
      division_(division_options(with_)),
      batches_(batch_options(with_, division_), with_.prepared.train->shape()),
      log_(std::move(with_.record)),
      pace_{.batches_per_epoch = with_.prepared.batches_per_epoch,
            .accumulate = static_cast<std::uint64_t>(with_.options.accumulate)},
      began_(SteadyClock().now()),
      point_every_(std::max<std::uint64_t>(1, with_.prepared.control.total_steps / kCurvePoints)) {
  if (with_.assign_rows) with_.assign_rows(trainer_);
  if (!with_.prepared.record_steps.empty() && with_.job.rank() == 0)
    recorder_ = std::make_unique<GradientRecorder>(with_.model, with_.prepared.record_file,
                                                   with_.prepared.record_steps);
  seed_torch(with_.options.seed, with_.job.rank(), 0);
  if (with_.prepared.resume) resume(*with_.prepared.resume);
  if (with_.options.graphs && !has_graphs(with_)) {
    log_.event(done_.steps, "steps run without graphs: " + with_.why_no_graphs);
    if (with_.job.rank() == 0) fmt::print(stderr, "{}\n", log_.record().events.back().text);
  }
  open_loader();
  if (saves() && (!has_servers() || trainer_.is_first())) writer();
  together_ = done_;
  next_meeting_ = control_.next_due(done_, pace_);
}

void Training::open_loader() {
  if (loader_) waited_before_ += loader_->waited();
  batches_.release();
  loader_ =
      std::make_unique<train::Loader>(*with_.prepared.train, division_.order(),
                                      train::LoaderOptions{.threads = with_.options.loader_threads,
                                                           .seed = with_.options.seed,
                                                           .allocate = batches_.allocator()});
}

checkpoint::Writer& Training::writer() {
  if (writer_) return *writer_;
  if (has_servers()) alone_ = or_throw(Job::in_process(1));
  Communicator& world = has_servers() ? alone_.front()->world() : with_.job.world();
  writer_ = or_throw(checkpoint::Writer::make(world, {.folder = with_.options.checkpoint,
                                                      .keep = with_.options.keep,
                                                      .begin_step = done_.steps,
                                                      .run = launch::run_name()}));
  if (has_servers())
    snapshots_ = std::make_unique<server::RowSnapshotRetention>(
        with_.options.checkpoint, snapshots_folder(with_.options.checkpoint));
  return *writer_;
}

void Training::remove_old_snapshots(const std::filesystem::path& current) {
  if (!snapshots_) return;
  const auto removed = snapshots_->remove_unused(current);
  if (!removed) log_warning("old snapshots: " + removed.error().message);
}

Training::~Training() = default;

void Training::resume(const ResumePoint& point) {
  const auto reader = or_throw(checkpoint::Reader::open(point.checkpoint));
  trainer_.restore(*reader);
  control_.restore(point.state.control);
  done_ = {.steps = trainer_.steps(), .epochs = point.state.position.epoch};
  or_throw(division_.seek(point.state.positions, done_.steps));
  first_step_ = pointed_ = done_.steps;
  agreement_step_ = agreed_step_ = done_.steps;
  // With another number of ranks, and on another device, random states cannot continue and are
  // seeded anew.
  const bool continues =
      reader->ranks() == with_.job.size() &&
      or_throw(set_random_state(with_.device, or_throw(reader->rank_state(with_.job.rank()))));
  if (!continues) seed_torch(with_.options.seed, with_.job.rank(), done_.steps);
  // With servers, one worker writes for all.
  log_.event(done_.steps, reader->ranks() > 1
                              ? fmt::format("resumed from step {}, written by {} workers",
                                            done_.steps, reader->ranks())
                              : fmt::format("resumed from step {}", done_.steps));
  with_.console.say(log_.record().events.back().text);
}

Duration Training::elapsed() const { return SteadyClock().now() - began_; }

Duration Training::left() const {
  const auto steps = std::max(with_.prepared.control.total_steps, done_.steps) - done_.steps;
  const auto made = static_cast<double>(std::max<std::uint64_t>(1, done_.steps - first_step_));
  return duration_of(seconds(elapsed()) / made * static_cast<double>(steps));
}

double Training::epochs() const {
  if (!trainer_.in_step())
    return static_cast<double>(done_.steps * pace_.accumulate) /
           static_cast<double>(pace_.batches_per_epoch);
  const data::Position position = loader_->position();
  return static_cast<double>(position.epoch) +
         static_cast<double>(position.samples) / static_cast<double>(with_.prepared.train->size());
}

StopReason Training::run() {
  with_.model.train();
  for (;;) {
    step();
    log_reported();
    balance();
    const bool together = come_together();
    add_point();
    if (!together) {
      show_progress();
      continue;
    }
    const bool interrupted = interrupted_;
    const Due due = control_.due(std::exchange(together_, done_), done_, interrupted);
    next_meeting_ = control_.next_due(done_, pace_);
    if (due.evaluate) evaluate();
    // A model that only guesses would take the place of an earlier one. An interrupted training may
    // still recover when it is resumed.
    const bool is_kept = interrupted ? control_.divergence().empty() : control_.is_sound();
    const bool saves_best = with_.prepared.control.saves_best;
    if (saves() && is_kept && (due.save || (saves_best && due.evaluate && control_.is_best())))
      save();
    const auto reason = control_.stop(done_.steps, interrupted);
    if (reason) {
      // An evaluation stopped the training after a step that was not saved: save the last step.
      if (saves() && is_kept && !due.save && !saves_best) save();
      return *reason;
    }
    if (!due.evaluate) show_progress();
  }
}

void Training::add_point() {
  if (done_.steps - pointed_ < point_every_) return;
  log_.point(done_, epochs(), elapsed(), trainer_.rate());
  pointed_ = done_.steps;
}

void Training::step() {
  StepOutcome outcome;
  std::uint64_t samples = 0;
  RunningMean loss;
  std::uint64_t computed = 0;  // samples, by this worker
  const Duration computed_before = trainer_.times().compute;
  for (int i = 0; i < with_.options.accumulate; ++i) {
    batches_.release();
    const train::Batch batch = or_throw(loader_->next());
    const TensorBatch tensors = batches_.take(batch);
    if (recorder_) recorder_->begin(trainer_.steps() + 1);
    outcome = trainer_.step(batch.samples, [&] {
      const adapter::PrecisionScope precision(with_.options.precision, with_.device);
      return recipes::mean_loss(with_.prepared.task, with_.model.forward(tensors.input),
                                tensors.target);
    });
    if (recorder_) recorder_->end();
    loss.add(outcome.loss, outcome.samples);
    samples += outcome.samples;
    computed += batch.samples;
    if (batch.last_of_epoch) ++done_.epochs;
  }
  speed_.add(computed, trainer_.times().compute - computed_before);
  done_.steps = trainer_.steps();
  own_samples_ += samples;
  const double mean = loss.mean().value_or(0);
  if (samples > 0) loss_trend_.add(mean, samples);
  // With servers, only this worker's samples are known: assume the same for the others.
  if (has_servers()) samples *= division_.living().size();
  // In the group this is a mean over all ranks, so all of them stop here. With servers the launcher
  // ends the others.
  if (!std::isfinite(mean))
    throw Divergence(invalid(
        "the training has diverged: the loss of step {} is {}: a rate of {} is too high, so "
        "give a lower --rate, or the data have values that are no numbers",
        done_.steps, mean, with_.prepared.optimizer.rate));
  const bool tokens = with_.prepared.task == recipes::Task::kLanguage;
  const std::uint64_t units =
      tokens ? samples * static_cast<std::uint64_t>(with_.prepared.train->shape().input[0])
             : samples;
  log_.step(mean, samples, units);
  with_.job.set_figure("epoch", epochs());
  with_.job.set_figure("left_s", seconds(left()));
  shown_loss_.add(mean, samples);
  evaluated_loss_.add(mean, samples);
}

void Training::log_reported() {
  std::vector<std::string> sentences;
  {
    const MutexLock lock(reported_->mutex);
    sentences.swap(reported_->sentences);
  }
  for (std::string& sentence : sentences) log_.event(done_.steps, std::move(sentence));
}

// All workers take the same decision, from speeds that are equal on all of them.
void Training::balance() {
  const bool is_due = with_.options.balance == "speed" && with_.job.size() > 1 &&
                      train::balances_after(done_.steps - first_step_);
  if (!is_due) return;
  std::vector<double> speeds(static_cast<std::size_t>(with_.job.size()), 0.0);
  speeds[static_cast<std::size_t>(with_.job.rank())] = speed_.value();
  speeds = trainer_.sum(std::move(speeds));
  const std::vector<std::uint64_t> now = division_.parts();
  std::vector<std::uint64_t> next =
      train::balanced_parts(with_.options.batch * speeds.size(), speeds);
  if (!train::is_worth_changing(now, next)) return;
  log_.event(done_.steps, fmt::format("samples of a step by worker: {}", fmt::join(next, ", ")));
  division_.divide(loader_->position(), std::move(next));
  open_loader();
}

// Workers synchronise only where something is due, because waiting would lose what an asynchronous
// plan gains. An interrupted worker goes there at once: the launcher signals all of them.
bool Training::come_together() {
  if (trainer_.in_step()) {
    exchange_interruptions();
    return true;
  }
  while (trainer_.is_due(next_meeting_) || process::interrupted() != 0) {
    const double interrupted = process::interrupted() != 0 ? 1 : 0;
    interrupted_ = take_reports(trainer_.meet(with_report({interrupted})))[0] > 0;
    done_ = {.steps = trainer_.steps(), .epochs = pace_.epochs_after(trainer_.steps())};
    if (interrupted_ || done_.steps >= next_meeting_) return true;
  }
  return false;
}

void Training::exchange_interruptions() {
  if (interrupted_ || done_.steps < agreement_step_) return;
  const Duration now = elapsed();
  const auto steps = static_cast<double>(std::max<std::uint64_t>(1, done_.steps - agreed_step_));
  const double interrupted = process::interrupted() != 0 ? 1 : 0;
  const std::vector<double> sums =
      take_reports(trainer_.sum(with_report({interrupted, seconds(now - agreed_at_) / steps})));
  interrupted_ = sums[0] > 0;
  agreed_step_ = done_.steps;
  agreed_at_ = now;
  agreement_step_ = done_.steps + steps_to_next_agreement(
                                      sums[1] / static_cast<double>(division_.living().size()));
}

std::vector<double> Training::with_report(std::vector<double> values) const {
  const std::vector<double> report = division_.report(loader_->position(), own_samples_);
  values.insert(values.end(), report.begin(), report.end());
  return values;
}

std::vector<double> Training::take_reports(std::vector<double> sums) {
  const std::size_t own = sums.size() - DataDivision::report_size(with_.job.size());
  const std::size_t known = division_.lost().size();
  if (division_.take(std::span<const double>(sums).subspan(own), trainer_.steps())) {
    open_loader();
    if (is_first()) with_.console.speak();
    for (std::size_t i = known; i < division_.lost().size(); ++i) {
      log_.event(trainer_.steps(), lost_text(division_.lost()[i]));
      with_.console.say(log_.record().events.back().text);
    }
  }
  sums.resize(own);
  return sums;
}

// The mean over the ranks that have windows. With servers, each rank knows its own losses only.
std::optional<LossWindows> Training::mean_loss_windows() {
  const std::optional<LossWindows> own = loss_trend_.windows();
  const LossWindows of = own.value_or(LossWindows());
  const std::vector<double> sums = trainer_.sum({own ? 1.0 : 0.0, of.lowest, of.last, of.complete});
  const double ranks = sums[0];
  if (!(ranks > 0)) return std::nullopt;
  return LossWindows{
      .lowest = sums[1] / ranks, .last = sums[2] / ranks, .complete = sums[3] / ranks};
}

void Training::evaluate() {
  const Duration began = elapsed();
  // The workers that are left divide the test part, too.
  if (has_servers() && trainer_.in_step()) take_reports(trainer_.sum(with_report({})));
  const EvaluatorPlace here{.place = division_.place(),
                            .workers = static_cast<int>(division_.living().size())};
  const Score score =
      app::evaluate(here, trainer_, with_.model, with_.prepared, with_.options, with_.device);
  control_.observe(done_.steps, score, mean_loss_windows());
  trainer_.schedule().observe(score.loss);
  log_.evaluation(done_, epochs(), {began, elapsed()}, score);
  with_.console.say(evaluation_line({.epochs = epochs(),
                                     .step = done_.steps,
                                     .train_loss = evaluated_loss_.mean(),
                                     .test_loss = score.loss,
                                     .accuracy = score.accuracy,
                                     .auc = score.auc,
                                     .rmse = score.rmse,
                                     .elapsed = elapsed()}));
  evaluated_loss_.clear();
}

void Training::save() {
  checkpoint::Content content = trainer_.checkpoint();
  const std::vector<data::Position> positions =
      trainer_.in_step() ? std::vector{loader_->position()} : division_.positions();
  content.state = or_throw(with_train_state(
      content.state, {.recipe = with_.recipe.name(),
                      .data = with_.options.data,
                      .read = with_.options.read,
                      .seed = with_.options.seed,
                      .position = common_position(positions, with_.prepared.train->size()),
                      .positions = positions,
                      .control = control_.state()}));
  content.state = or_throw(with_model_state(content.state, with_.model_state));
  content.rank_state = random_state(with_.device);
  log_.event(done_.steps, "checkpoint");
  if (has_servers() && !trainer_.is_first()) return;
  // The outcome is that of the save before, except that kTimeout means that this one did not begin.
  const Result<void> outcome = writer().save(content);
  const bool began = outcome || outcome.error().code != ErrorCode::kTimeout;
  note_saving(began ? saving_step_ : done_.steps, outcome);
  if (began) saving_step_ = done_.steps;
  last_save_step_ = done_.steps;
  const std::filesystem::path snapshot = server::row_snapshot_in(content.state);
  if (snapshots_) snapshots_->add(snapshot);
  // The save before has ended, so its checkpoint names its snapshot.
  if (began) remove_old_snapshots(snapshot);
}

void Training::note_saving(std::uint64_t step, const Result<void>& outcome) {
  if (outcome) return;
  // A lost peer ends the training; a full disk does not, because a later save may succeed.
  if (outcome.error().code == ErrorCode::kPeerLost) throw Failure(outcome.error());
  log_.save_failed(step, outcome.error().message);
  last_failed_step_ = step;
  with_.console.say(log_.record().unsaved.back().text);
}

void Training::show_progress() {
  const Duration now = elapsed();
  const bool live = with_.console.live();
  const bool by_steps = with_.options.log_every > 0 && !live;
  if (by_steps ? done_.steps % with_.options.log_every != 0
               : now - shown_at_ < (live ? Duration(kLiveInterval) : Duration(kLineInterval)))
    return;
  const TimeSplit times = trainer_.times();
  with_.console.progress(
      {.epochs = epochs(),
       .epoch_count = with_.prepared.epoch_count,
       .step = done_.steps,
       .step_count = with_.prepared.control.total_steps,
       .loss = shown_loss_.mean().value_or(0),
       .accuracy = log_.record().accuracy,
       .units_per_s = static_cast<double>(log_.units() - shown_units_) /
                      std::max(1e-9, seconds(now - shown_at_)),
       .unit = log_.record().unit,
       .shares = shares_of(times.compute, times.communicate, times.wait, data_wait()),
       .left = left()});
  shown_at_ = now;
  shown_units_ = log_.units();
  shown_loss_.clear();
}

TrainingRecord& Training::finish(StopReason reason) {
  const Duration whole = elapsed();
  if (writer_) {
    const auto outcome = writer_->wait(Deadline::after(std::chrono::minutes(10)));
    note_saving(saving_step_, outcome);
    if (outcome || outcome.error().code != ErrorCode::kTimeout) remove_old_snapshots({});
  }
  const auto size = static_cast<std::size_t>(with_.job.size());
  const std::size_t here = static_cast<std::size_t>(with_.job.rank());
  // Four times of each rank, and whether its last save failed.
  std::vector<double> all(4 * size + 1, 0.0);
  const TimeSplit own = trainer_.times();
  const std::array times = {own.compute, own.communicate, own.wait, data_wait()};
  std::transform(times.begin(), times.end(), all.begin() + static_cast<std::ptrdiff_t>(4 * here),
                 seconds);
  all.back() = last_save_step_ > 0 && last_failed_step_ == last_save_step_ ? 1 : 0;
  all = take_reports(trainer_.sum(with_report(std::move(all))));
  TrainingRecord& record = log_.finish(done_, epochs(), whole, reason);
  record.divergence = control_.divergence();
  record.discarded_updates = trainer_.discarded();
  record.last_save_failed = all.back() > 0;
  record.lost_workers = division_.lost();
  if (has_servers()) record.samples = division_.samples();
  if (with_.options.balance == "speed") record.parts = division_.parts();
  for (const Rank rank : division_.living()) {
    const double* const of = &all[4 * static_cast<std::size_t>(rank)];
    record.times.push_back({.rank = rank,
                            .compute = duration_of(of[0]),
                            .communicate = duration_of(of[1]),
                            .wait = duration_of(of[2]),
                            .data = duration_of(of[3])});
  }
  take_figures(record);
  return record;
}

Result<std::string> Training::write_gradients() const {
  if (!recorder_) return std::string();
  return recorder_->write();
}

// Adds the staleness figures of all workers to the record.
void Training::take_figures(TrainingRecord& record) {
  const PolicyFigures own = trainer_.figures();
  std::vector<double> sums(own.staleness.begin(), own.staleness.end());
  sums.push_back(static_cast<double>(own.dropped));
  sums.push_back(static_cast<double>(trainer_.memory_bytes()));
  sums = trainer_.sum(std::move(sums));
  const double hosts = static_cast<double>(with_.job.size()) / with_.job.local_size();
  record.model_memory_bytes = static_cast<std::uint64_t>(sums.back() / hosts);
  sums.pop_back();
  record.dropped_gradients = static_cast<std::uint64_t>(sums.back());
  sums.pop_back();
  record.staleness.assign(sums.begin(), sums.end());
  while (!record.staleness.empty() && record.staleness.back() == 0) record.staleness.pop_back();
  const double elapsed_s = seconds(record.elapsed);
  if (elapsed_s > 0)
    record.steps_per_s = static_cast<double>(record.steps - first_step_) / elapsed_s;
}

}  // namespace tally::app
