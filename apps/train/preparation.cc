#include "apps/train/preparation.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/tally/outputs.h"
#include "apps/tally/watch_target.h"
#include "apps/train/model_state.h"
#include "apps/train/preprocessing_json.h"
#include "base/errors.h"
#include "codec/encoder/sender_rules.h"
#include "data/scaled_targets.h"
#include "exchange/plan_advice.h"
#include "policy/rules.h"
#include "train/disturbance.h"

namespace tally::app {
namespace {

// Adds the name of the option to an error.
template <typename T>
Result<T> of_option(const char* option, Result<T> result) {
  if (!result) result.error().message = fmt::format("{}: {}", option, result.error().message);
  return result;
}

constexpr std::uint64_t kManySteps = std::uint64_t{1} << 40;
constexpr std::uint64_t kWarmupShare = 10;
constexpr std::uint64_t kLateWarmupFactor = 3;

// sgd with late gradients is stable only at much smaller learning rates than with bsp, most of all
// while the model learns fastest, at the end of the usual warm-up.
bool needs_long_warmup(const Preparation& prepared) {
  return prepared.has_late_gradients && prepared.optimizer.kind == OptimizerKind::kSgd;
}

// The schedule of the user for a training of `steps` steps, or that of the recipe with a warm-up
// that leaves most of the training.
Result<RateSchedule> schedule_of(const TrainOptions& options, const recipes::Recipe& recipe,
                                 const Preparation& prepared, std::uint64_t steps) {
  std::string text = options.schedule;
  if (text.empty()) {
    const recipes::Defaults defaults = recipe.defaults();
    std::uint64_t warmup = std::min(defaults.warmup, steps / kWarmupShare);
    if (needs_long_warmup(prepared)) warmup *= kLateWarmupFactor;
    text = defaults.schedule;
    const char separator = text.find(':') == std::string::npos ? ':' : ',';
    if (warmup > 0) text += fmt::format("{}warmup={}", separator, warmup);
  }
  return of_option("--schedule", RateSchedule::parse(text, steps));
}

// For a schedule of the user that begins with the whole learning rate; empty: none.
std::string schedule_advice(const TrainOptions& options, const Preparation& prepared) {
  const bool is_sudden = prepared.schedule.factor(0) > 0.5;
  if (options.schedule.empty() || !is_sudden || !needs_long_warmup(prepared)) return "";
  return fmt::format(
      "--schedule {}: with late gradients sgd may diverge in the first steps; add warmup=N, a "
      "tenth to a third of the steps",
      options.schedule);
}

data::Strategy strategy_of(plan::Data data) {
  if (data == plan::Data::kReplicate) return data::Strategy::kReplicate;
  return data == plan::Data::kStream ? data::Strategy::kStream : data::Strategy::kPartition;
}

// The defaults are guesses for data of the user's own, so the training states them.
Result<std::string> data_facts(const recipes::Recipe& recipe, const recipes::DataRequest& request,
                               const data::Dataset& train) {
  if (request.data.empty()) return std::string();
  TALLY_TRY(const data::Location location, recipe.locate(request));
  const bool as_published =
      location.known != nullptr && !request.read.validation && request.read.test.empty();
  if (as_published) return std::string();
  return fmt::format("{}: {}", request.data, data::describe_parts(location, request.read, train));
}

Result<void> open_data(const TrainOptions& options, const recipes::Recipe& recipe, int readers,
                       const std::filesystem::path& cache, Preparation& prepared) {
  if (options.data.empty() && options.read != ReadWords{})
    return invalid("--target, --classes, --bytes and --validation need the --data they are for");
  recipes::DataRequest request{
      .data = options.data, .cache = cache, .train = true, .seed = options.seed};
  TALLY_TRY(request.read, read_options_of(options.read));
  request.read.readers = readers;
  auto train = recipe.open(request);
  if (!train && !request.read.test.empty()) {
    // The test part is read as well. If the data are good without it, it is to blame.
    recipes::DataRequest alone = request;
    alone.read.test.clear();
    return of_option(recipe.open(alone) ? "--validation" : "--data", std::move(train)).error();
  }
  TALLY_TRY(prepared.train, of_option("--data", std::move(train)));
  TALLY_TRY(of_option("--data", recipe.accepts(prepared.train->preprocessing())));
  request.train = false;
  const char* const test_option = request.read.test.empty() ? "--data" : "--validation";
  TALLY_TRY(prepared.test, of_option(test_option, recipe.open(request)));
  TALLY_TRY(of_option(test_option, recipe.accepts(prepared.test->preprocessing())));
  TALLY_TRY(of_option(test_option, data::check_parts(*prepared.train, *prepared.test)));
  if (prepared.train->size() == 0 || prepared.test->size() == 0)
    return invalid("--data {}: {} samples to train with and {} to test with, at least 1 is needed",
                   options.data, prepared.train->size(), prepared.test->size());
  if (prepared.train->classes().size() == 1)
    return invalid("--data {}: all samples have the class {}, expected two classes or more",
                   options.data, prepared.train->classes().front());
  TALLY_TRY(prepared.data_facts, data_facts(recipe, request, *prepared.train));
  prepared.task = recipe.task(prepared.train->preprocessing());
  if (prepared.task != recipes::Task::kRegression || !recipe.scales_targets()) return {};
  TALLY_TRY(const data::TargetScale scale, data::measure_targets(*prepared.train));
  prepared.train = data::scale_targets(std::move(prepared.train), scale);
  prepared.test = data::scale_targets(std::move(prepared.test), scale);
  return {};
}

Result<void> set_lengths(const TrainOptions& options, const recipes::Recipe& recipe, int workers,
                         Preparation& prepared) {
  const data::Order order({.strategy = prepared.strategy,
                           .size = prepared.train->size(),
                           .seed = options.seed,
                           .batch = options.batch,
                           .workers = workers});
  prepared.batches_per_epoch = order.steps_per_epoch();
  const bool by_steps = options.steps > 0 && !options.epochs;
  const auto accumulate = static_cast<std::uint64_t>(options.accumulate);
  const recipes::Defaults& defaults = recipe.defaults();
  if (!by_steps)
    prepared.epoch_count = options.epochs.value_or(
        lengthened(defaults.epochs, defaults.least_steps, prepared.batches_per_epoch, accumulate));
  prepared.control.total_steps = by_steps
                                     ? options.steps
                                     : total_steps(prepared.epoch_count, prepared.batches_per_epoch,
                                                   accumulate, options.steps);
  if (prepared.control.total_steps == 0)
    return invalid("--accumulate {}: {} epochs are only {} batches, not one step",
                   options.accumulate, prepared.epoch_count,
                   prepared.epoch_count * prepared.batches_per_epoch);
  return {};
}

Result<void> set_loop_control(const TrainOptions& options, const recipes::Defaults& defaults,
                              Preparation& prepared) {
  LoopControlOptions& control = prepared.control;
  // Many short epochs are as long as the epochs of the recipe, so the default intervals have as
  // many more of them.
  const std::uint64_t short_epochs =
      options.epochs ? 1 : std::max<std::uint64_t>(1, prepared.epoch_count / defaults.epochs);
  const auto interval_of = [&](const char* option, const std::optional<std::string>& given,
                               const std::string& usual) -> Result<Interval> {
    TALLY_TRY(Interval interval, of_option(option, parse_interval(given.value_or(usual))));
    if (!given) interval.epochs *= short_epochs;
    return interval;
  };
  TALLY_TRY(control.evaluate, interval_of("--eval-every", options.eval_every, defaults.eval_every));
  control.saves_best = options.checkpoint_every == "best";
  if (!control.saves_best) {
    TALLY_TRY(const Interval save,
              interval_of("--checkpoint-every", options.checkpoint_every, kCheckpointEvery));
    if (!options.checkpoint.empty()) control.save = save;
    if (!options.checkpoint.empty() && save == Interval{})
      return invalid("--checkpoint-every never: leave out --checkpoint instead");
  }
  control.target_accuracy = options.target_accuracy;
  control.patience = options.patience;
  if (options.target_accuracy && !recipes::has_accuracy(prepared.task))
    return invalid("--target-accuracy: these targets are numbers, and no output is right or wrong");
  const bool unseen = control.evaluate == Interval{};
  if (unseen && options.target_accuracy)
    return invalid("--target-accuracy needs evaluations, and --eval-every is never");
  if (unseen && control.saves_best)
    return invalid("--checkpoint-every best needs evaluations, and --eval-every is never");
  if (unseen && options.patience > 0)
    return invalid("--early-stop needs evaluations, and --eval-every is never");
  if (unseen && prepared.schedule.text().rfind("plateau", 0) == 0)
    return invalid("--schedule plateau needs evaluations, and --eval-every is never");
  return {};
}

// Returns the checkpoint that --resume means.
Result<std::filesystem::path> resume_path(const TrainOptions& options) {
  if (options.resume == "latest" || options.resume == "auto")
    return checkpoint::find_latest(options.checkpoint);
  std::uint64_t step = 0;
  const char* const end = options.resume.data() + options.resume.size();
  const auto parsed = std::from_chars(options.resume.data(), end, step);
  if (parsed.ec != std::errc() || parsed.ptr != end)
    return invalid("--resume={}: neither the number of a step nor auto", options.resume);
  const std::vector<std::uint64_t> steps = checkpoint::list_steps(options.checkpoint);
  if (std::find(steps.begin(), steps.end(), step) == steps.end())
    return invalid("--resume={}: {} has {}", step, options.checkpoint,
                   steps.empty() ? "no checkpoints"
                                 : fmt::format("those of steps {}", fmt::join(steps, ", ")));
  return checkpoint::path_of(options.checkpoint, step);
}

// Returns that the checkpoint is the end of its training, and how to train further; empty: it is
// not.
std::string completion_of(const LoopControlOptions& options, const ResumePoint& point) {
  LoopControl control(options);
  control.restore(point.state.control);
  const auto reason = control.stop(point.step, /*interrupted=*/false);
  if (!reason) return "";
  const auto text = [&](const std::string& why, const char* remedy) {
    return fmt::format("already complete: step {} of {}{}; {} to train further", point.step,
                       options.total_steps, why, remedy);
  };
  const std::string early = fmt::format(", {}", to_string(*reason));
  if (*reason == StopReason::kTargetReached) return text(early, "give a higher --target-accuracy");
  if (*reason == StopReason::kNoImprovement) return text(early, "give a larger --early-stop");
  return text("", "give more --epochs or --steps");
}

// Refuses to continue with other columns, classes or scales than those of the checkpoint.
Result<void> check_same_data(const std::string& state, const recipes::Recipe& recipe,
                             const Preparation& prepared) {
  const auto model = model_state_of(state);
  if (!model) {
    // Earlier versions did not scale targets.
    if (prepared.task == recipes::Task::kRegression && recipe.scales_targets())
      return invalid(
          "the checkpoint is of an earlier version, which did not scale targets: train anew");
    return {};
  }
  const auto now = preprocessing_json(prepared.train->preprocessing());
  if (preprocessing_json(model->preprocessing) == now) return {};
  return invalid(
      "the data have changed since the checkpoint: other columns, classes or scales; --init starts "
      "a new training from its weights");
}

Result<void> set_resume(const TrainOptions& options, const recipes::Recipe& recipe,
                        Preparation& prepared) {
  if (options.resume.empty()) return {};
  if (options.resume == "auto" && checkpoint::list_steps(options.checkpoint).empty()) return {};
  TALLY_TRY(const std::filesystem::path path, of_option("--resume", resume_path(options)));
  TALLY_TRY(const auto reader, of_option("--resume", checkpoint::Reader::open(path)));
  TALLY_TRY(TrainState state, of_option("--resume", train_state_of(reader->state())));
  if (state.recipe != recipe.name())
    return invalid("--resume: {} is of the recipe {}, not {}", path.string(), state.recipe,
                   recipe.name());
  if (state.read != options.read)
    return invalid("--resume: {} was trained with{}; give the same options for the data",
                   path.string(), to_string(state.read));
  if (state.seed != options.seed)
    return invalid("--resume: {} was trained with --seed {}, not {}", path.string(), state.seed,
                   options.seed);
  // Another seed holds out other samples, so this comes after it.
  TALLY_TRY(of_option("--resume", check_same_data(reader->state(), recipe, prepared)));
  prepared.resume = ResumePoint{path, reader->step(), std::move(state)};
  prepared.completion = completion_of(prepared.control, *prepared.resume);
  return {};
}

Result<void> set_record(const TrainOptions& options, Preparation& prepared) {
  constexpr const char* kOption = "--record-gradients";
  if (options.record_gradients.empty()) return {};
  if (options.graphs)
    return invalid(
        "--record-gradients: a step from a CUDA graph shows no gradients; leave out "
        "--graphs");
  TALLY_TRY(RecordChoice choice, of_option(kOption, parse_record_choice(options.record_gradients)));
  if (options.accumulate > 1)
    return invalid(
        "--record-gradients: with --accumulate {} no backward pass has the gradient of a step",
        options.accumulate);
  TALLY_TRY(prepared.record_steps,
            of_option(kOption, recorded_steps(choice, prepared.control.total_steps)));
  prepared.record_file = std::move(choice.file);
  if (!prepared.resume) return {};
  std::erase_if(prepared.record_steps,
                [&](std::uint64_t step) { return step <= prepared.resume->step; });
  if (prepared.record_steps.empty() && prepared.completion.empty())
    return invalid("--record-gradients: step {}, where it goes on, is past all of them",
                   prepared.resume->step);
  return {};
}

// Sets plan, servers and delays from the options, without data. An empty plan means home=server if
// servers are requested.
Result<void> set_plan(const TrainOptions& options, int workers, Preparation& prepared) {
  TALLY_TRY(prepared.servers, of_option("--servers", parse_servers(options.servers)));
  const bool asked = prepared.servers.kind != ServerChoice::Kind::kNone;
  const plan::Plan defaults{.home = asked ? plan::Home::kServer : plan::Home::kGroup};
  TALLY_TRY(prepared.plan, of_option("--plan", plan::parse_plan(options.plan, defaults)));
  TALLY_TRY(of_option("--plan", plan::check_exchanges_gradients(prepared.plan, "this recipe")));
  TALLY_TRY(const policy::Rules rules,
            of_option("--plan", policy::rules_of(prepared.plan, workers, options.seed)));
  prepared.has_late_gradients = policy::has_late_gradients(rules);
  prepared.strategy = strategy_of(prepared.plan.data);
  const bool home = prepared.plan.home == plan::Home::kServer;
  if (asked && !home)
    return invalid("--servers {}: with home=group there are none", options.servers);
  if (!options.server_secret.empty()) {
    if (prepared.servers.kind != ServerChoice::Kind::kElsewhere)
      return invalid("--server-secret goes with --servers HOST:PORT");
    TALLY_TRY(prepared.server_secret,
              of_option("--server-secret", secret_in(options.server_secret)));
  }
  if (options.replicas > 0 && !home)
    return invalid("--replicas: with home=group there are no servers to keep copies");
  if (prepared.servers.kind == ServerChoice::Kind::kColocated && prepared.servers.count > workers)
    return invalid("--servers {}: there are only {} workers, for a server each", options.servers,
                   workers);
  const std::vector<OptimizerSpec> optimizers{prepared.optimizer};
  const std::vector senders{codec::sender_facts(prepared.plan.codec, prepared.optimizer, workers)};
  TALLY_TRY(of_option("--plan",
                      exchange::check_optimizers({prepared.plan, optimizers, senders, workers})));
  TALLY_TRY(const auto stragglers,
            of_option("--straggle", train::parse_stragglers(options.straggle)));
  for (const auto& straggler : stragglers)
    if (straggler.rank >= workers)
      return invalid("--straggle {}: the workers are 0 to {}", options.straggle, workers - 1);
  TALLY_TRY(of_option("--delay", train::parse_delay(options.delay)));
  return {};
}

// Options of the computation that make sense only with some recipes and plans.
Result<void> check_computation(const TrainOptions& options, const recipes::Recipe& recipe,
                               const plan::Plan& plan) {
  if (options.channels_last == "on" && !recipe.has_convolutions())
    return invalid("--channels-last on: {} has no convolutions over pictures", recipe.name());
  if (options.balance != "speed") return {};
  if (plan.home == plan::Home::kServer)
    return invalid(
        "--balance speed: with home=server the workers do not agree on the samples of a step; "
        "home=group does");
  if (plan.update != plan::Update::kBsp)
    return invalid(
        "--balance speed: with {} a step does not wait for slow workers; update=bsp does",
        plan::update_text(plan));
  if (plan.data == plan::Data::kReplicate)
    return invalid(
        "--balance speed: with data=replicate every worker reads all samples; data=partition "
        "divides them");
  if (options.graphs)
    return invalid(
        "--balance speed: --graphs needs batches of one size, and this changes their sizes");
  return {};
}

std::string describe(const checkpoint::TensorInfo& tensor) {
  return fmt::format("{} [{}] {}", tensor.name, fmt::join(tensor.shape, ", "),
                     to_string(tensor.type));
}

}  // namespace

Result<Preparation> prepare(const TrainOptions& options, const recipes::Recipe& recipe,
                            const WorkerCounts& workers, const std::filesystem::path& cache) {
  Preparation prepared;
  TALLY_TRY(recipe.check_options());
  const recipes::Defaults defaults = recipe.defaults();
  TALLY_TRY(prepared.optimizer,
            of_option("--optimizer", choose_optimizer(options.optimizer, options.rate,
                                                      {defaults.optimizer, defaults.rate})));
  TALLY_TRY(set_plan(options, workers.all, prepared));
  TALLY_TRY(check_computation(options, recipe, prepared.plan));
  prepared.has_convolutions = recipe.has_convolutions();
  // Checked before the data is opened, which may take a while; the number of steps is known only
  // then.
  TALLY_TRY(schedule_of(options, recipe, prepared, kManySteps));
  TALLY_TRY(open_data(options, recipe, workers.here, cache, prepared));
  TALLY_TRY(set_lengths(options, recipe, workers.all, prepared));
  TALLY_TRY(prepared.schedule,
            schedule_of(options, recipe, prepared, prepared.control.total_steps));
  prepared.schedule_advice = schedule_advice(options, prepared);
  TALLY_TRY(set_loop_control(options, recipe.defaults(), prepared));
  TALLY_TRY(set_resume(options, recipe, prepared));
  TALLY_TRY(set_record(options, prepared));
  return prepared;
}

Result<void> check_outputs(const TrainOptions& options) {
  if (!options.json.empty()) TALLY_TRY(check_writable_file("--json", options.json));
  if (!options.report.empty()) TALLY_TRY(check_writable_file("--report", options.report));
  if (!options.record_gradients.empty()) {
    TALLY_TRY(const RecordChoice choice,
              of_option("--record-gradients", parse_record_choice(options.record_gradients)));
    TALLY_TRY(check_writable_file("--record-gradients", choice.file));
  }
  if (!options.checkpoint.empty())
    TALLY_TRY(check_writable_folder("--checkpoint", options.checkpoint));
  return {};
}

Result<void> check_tensors(const std::vector<checkpoint::TensorInfo>& saved,
                           const std::vector<checkpoint::TensorInfo>& wanted) {
  for (const checkpoint::TensorInfo& tensor : wanted) {
    const auto found = std::find_if(saved.begin(), saved.end(),
                                    [&](const auto& other) { return other.name == tensor.name; });
    if (found == saved.end())
      return invalid("--resume: the checkpoint is of another model: it has no {}",
                     describe(tensor));
    if (*found != tensor)
      return invalid(
          "--resume: the checkpoint is of another model: it has {}, and the "
          "model {}",
          describe(*found), describe(tensor));
  }
  if (saved.size() != wanted.size())
    return invalid(
        "--resume: the checkpoint is of another model: it has {} tensors, and "
        "the model {}",
        saved.size(), wanted.size());
  return {};
}

}  // namespace tally::app
