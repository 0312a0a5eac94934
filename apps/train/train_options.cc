#include "apps/train/train_options.h"

#include <fmt/format.h>

#include "apps/tally/launch/launcher.h"
#include "apps/train/device_texts.h"
#include "apps/train/option_texts.h"
#include "group/local_access.h"

namespace tally::app {
namespace {

constexpr int kMostWorkers = 4096;

constexpr double kMany = 1e12;  // steps, epochs

void add_data(Command& command, TrainOptions& o) {
  command.add("--data", &o.data,
              "A dataset by name (see `tally data list`), or a file or folder of your own",
              {.value = "NAME|PATH"});
  add_read_words(command, o.read);
  command.add("--batch", &o.batch, "Samples per worker and step", {.least = 1, .most = 1U << 31});
  command.add("--accumulate", &o.accumulate, "Batches whose gradients make one step",
              {.least = 1, .most = 1 << 20});
  command.add("--epochs", &o.epochs, "Passes over the data", {.least = 1, .most = kMany});
  command.add("--steps", &o.steps,
              "Maximum number of steps; without --epochs, the number of passes follows from it",
              {.least = 1, .most = kMany});
  command.add("--init", &o.init,
              "Start from these weights: a safetensors file, for example from Python, or a folder "
              "of another training's checkpoints",
              {.value = "FILE|RUN"});
  command.add("--seed", &o.seed, "Seed of the model, the order of samples and all random numbers");
}

// The optimizers that have the learning rate of the recipe.
std::string usual_optimizers(const recipes::Defaults& defaults) {
  const auto usual = parse_optimizer(defaults.optimizer);
  if (usual && usual->kind == OptimizerKind::kSgd) return "sgd, momentum and nesterov";
  return std::string(optimizer_name(defaults.optimizer));
}

void add_optimizer(Command& command, TrainOptions& o, const recipes::Defaults& defaults) {
  command.add("--optimizer", &o.optimizer,
              "sgd, momentum, nesterov, adagrad, adam, adamw, ftrl, lamb or lars, with settings as "
              "in adamw:beta2=0.95,decay=0.1");
  command.add("--rate", &o.rate,
              fmt::format("Learning rate; default: {} with {}, else that of the --optimizer",
                          defaults.rate, usual_optimizers(defaults)),
              {.least = 0, .above_least = true});
  const std::string warmup =
      defaults.warmup > 0
          ? fmt::format(
                " with up to {} steps of warm-up (three times as many for sgd and momentum with "
                "asp, ssp, kasync, softsync and kbatch:K,async)",
                defaults.warmup)
          : "";
  command.add("--schedule", &o.schedule,
              fmt::format("Learning rate schedule: constant, step, multistep, cosine, linear, "
                          "onecycle or plateau, as in cosine:min=0.01,warmup=100; default: {}{}",
                          defaults.schedule, warmup));
  command.add("--clip-norm", &o.clip_norm, "Largest norm of the whole gradient; 0: unlimited",
              {.least = 0});
  command.add("--clip-value", &o.clip_value, "Largest component of a gradient; 0: unlimited",
              {.least = 0});
  command.add("--buffers", &o.buffers,
              "Statistics such as those of batch norm, before they are used: averaged over the "
              "workers, broadcast from rank 0, or left as each worker has them",
              {.choices = {"average", "broadcast", "leave"}});
  command.add("--precision", &o.precision,
              "Of the computation; parameters and updates are always float32. float16 needs a GPU",
              {.choices = {"float32", "bfloat16", "float16"}});
  command.add("--loss-scale", &o.loss_scale,
              "With float16: the first factor of the loss, without which small gradients would "
              "vanish. It is halved when a gradient overflows and doubled after 2000 updates",
              {.least = 1, .most = 1e9});
  command.add("--tf32", &o.tf32,
              "Multiply float32 matrices in TF32 on GPUs: faster, with 10 bits of mantissa. "
              "Convolutions of cuDNN do so without it, as in PyTorch");
  command.add("--channels-last", &o.channels_last,
              "Convolutions take pictures with the channels as the last dimension in memory, which "
              "is faster on GPUs; auto: on GPUs",
              {.choices = {"auto", "on", "off"}});
  command.add("--graphs", &o.graphs,
              "Record the kernels of a step as a CUDA graph, which starts them with one call: for "
              "small models, whose steps are as short as these calls");
  command.add("--plan", &o.plan,
              "How gradients are combined and sent, as in \"update=bsp codec=topk:0.01\"");
}

void add_workers(Command& command, TrainOptions& o) {
  command.add("--workers", &o.workers,
              "Processes to start; default: one for each GPU, or else for each core; with hosts: "
              "one for each slot",
              {.least = 1, .most = kMostWorkers});
  command.add("--device", &o.device,
              "auto, cpu or cuda, or one of them for each worker or each host, as in cuda,cpu,cpu. "
              "auto: CUDA if available. The workers of a host are assigned its GPUs round-robin",
              {.value = "DEVICE[,...]",
               .check = [](const std::string& text) { return problem_of(parse_devices(text)); }});
  command.add("--balance", &o.balance,
              "Share of each worker in the samples of a step, which is --batch times the workers: "
              "even, or by its measured speed (home=group update=bsp)",
              {.choices = {"even", "speed"}});
  command.add("--threads", &o.threads, "Per worker; default: cores / workers",
              {.least = 1, .most = 4096});
  command.add("--max-restarts", &o.max_restarts,
              "When a worker fails, start all workers again, at most N times; with --checkpoint "
              "they go on from the newest checkpoint",
              {.least = 0, .most = 1000000});
  command.add("--lost-after", &o.lost_after,
              "Silence after which a worker is lost; 0: never while its process lives, which is "
              "known on this host. Servers wait as long for each other and for workers, but at "
              "least 5 s",
              {.value = "TIME", .check = [](const std::string& text) {
                 return problem_of(launch::parse_time(text));
               }});
  add_host_options(command, o.hosts);
  command.add("--job", &o.job,
              "Name of the job, for `tally status`; default: train-RECIPE-PID; under another "
              "launcher the job has the launcher's name",
              {.value = "NAME", .check = [](const std::string& name) {
                 return group::is_job_name(name)
                            ? ""
                            : "need 1 to 64 letters, digits, dots, underscores and dashes";
               }});
  command.add("--loader-threads", &o.loader_threads, "Per worker, to read samples ahead",
              {.least = 1, .most = 256});
}

void add_servers(Command& command, TrainOptions& o) {
  command.add("--servers", &o.servers,
              "Parameter servers (home=server): a number of processes; \"2,colocated\": inside "
              "the first workers; HOST:PORT: the servers of the directory there",
              {.value = "COUNT|ADDRESS"});
  command.add("--server-secret", &o.server_secret,
              "With --servers HOST:PORT: the secret file of these servers", {.value = "FILE"});
  command.add("--replicas", &o.replicas,
              "Copies that servers keep of every part; default: 2, or 1 with one server",
              {.least = 1, .most = 16});
  command.add(
      "--replica", &o.replica,
      "One copy of the model for each host, whose workers share it, or for each worker (rank)",
      {.choices = {"host", "rank"}});
  command.add("--in-place", &o.in_place,
              "Update parameters in place: faster for models that exceed the caches, but after an "
              "error only a checkpoint is whole");
  command.add("--shard-state", &o.shard_state,
              "On GPUs: each worker keeps the optimizer state of its part of the model only. That "
              "saves GPU memory and costs the exchange of new values in each step");
  command.add("--straggle", &o.straggle, "Slow a worker down, to test a plan: \"rank=1,factor=4\"");
  command.add("--delay", &o.delay,
              "Slow all workers down randomly: exponential:20ms, constant:5ms, or exponential:1x "
              "for the time that a step computes");
}

void add_intervals(Command& command, TrainOptions& o, const recipes::Defaults& defaults) {
  command.add("--eval-every", &o.eval_every,
              "Evaluate on the test part every N steps or epochs: 500, \"2 epochs\", never",
              {.value = fmt::format("INTERVAL (default {})", defaults.eval_every)});
  command.add("--target-accuracy", &o.target_accuracy, "Stop at this accuracy, as in 0.9",
              {.least = 0, .most = 1});
  command.add("--early-stop", &o.patience,
              "Stop after this many evaluations without a lower test loss",
              {.value = "PATIENCE", .least = 1, .most = 1U << 31});
  command.add("--checkpoint", &o.checkpoint, "Write checkpoints into this folder",
              {.value = "DIR"});
  command.add("--checkpoint-every", &o.checkpoint_every,
              "Interval between checkpoints, and the last step is always saved; best: after "
              "evaluations with a lower test loss than all before",
              {.value = fmt::format("INTERVAL (default {})", kCheckpointEvery)});
  command.add("--keep", &o.keep, "Number of newest checkpoints to keep",
              {.least = 1, .most = 1 << 20});
  command.add("--resume", &o.resume,
              "Continue from the newest checkpoint in --checkpoint, or from that of a step; auto: "
              "from the newest one, or from the beginning if there is none",
              {.value = "STEP|auto", .implied = "latest"});
}

void add_output(Command& command, TrainOptions& o) {
  command.add("--record-gradients", &o.record_gradients,
              "Write the gradients of rank 0 into FILE (safetensors, up to 1 GiB), as backward "
              "computed them: of 4 steps spread over the training, or of the first multiples of "
              "every=N",
              {.value = "FILE[,every=N][,steps=N]"});
  command.add("--json", &o.json, "Append the result to FILE as one line of JSON",
              {.value = "FILE"});
  command.add("--report", &o.report, "Write a page with curves and the time of each worker",
              {.value = "FILE"});
  command.add("--log-every", &o.log_every, "Steps between lines; default: every 10 s",
              {.least = 1, .most = kMany});
  command.add("--no-progress", &o.quiet, "Print evaluations and the summary only");
  command.add("--live", &o.live_columns, "", {.hidden = true});  // from the launcher to its workers
}

void add_own(Command& command, recipes::Recipe& recipe) {
  for (const recipes::RecipeOption& option : recipe.options()) {
    const OptionRules rules{
        .least = option.least, .most = option.most, .section = "Options of " + recipe.name()};
    std::visit([&](auto* value) { command.add("--" + option.name, value, option.what, rules); },
               option.value);
  }
}

}  // namespace

void add_train_options(Command& command, TrainOptions& options, recipes::Recipe& recipe) {
  const recipes::Defaults defaults = recipe.defaults();
  options.data = defaults.data;
  options.batch = defaults.batch;
  options.optimizer = defaults.optimizer;
  options.clip_norm = defaults.clip_norm;
  // A repeated option replaces the earlier one, so that scripts can append options.
  command.last_value_wins();
  add_data(command, options);
  add_optimizer(command, options, defaults);
  add_workers(command, options);
  add_servers(command, options);
  add_intervals(command, options, defaults);
  add_output(command, options);
  add_own(command, recipe);
  command.add_config_file("--config",
                          "Options from FILE, one per line as in \"batch=32\"; options of the "
                          "command line take precedence");
}

}  // namespace tally::app
