#include "apps/train/train_options.h"

#include <cmath>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace tally::app {
namespace {

// CLI11's own says in 300 digits how large a number may be.
CLI::Validator at_least(double limit, bool included) {
  const std::string wanted = fmt::format("must be {} {}", included ? "at least" : "above", limit);
  return {[=](const std::string& text) -> std::string {
            double value = 0;
            if (!CLI::detail::lexical_cast(text, value) || !std::isfinite(value))
              return text + " is no number";
            const bool good = included ? value >= limit : value > limit;
            return good ? "" : fmt::format("{} {}", text, wanted);
          },
          ""};
}

constexpr int kMostWorkers = 4096;

void add_what(CLI::App& command, TrainOptions& o) {
  command
      .add_option("--data", o.data,
                  "A dataset by name (see `tally data list`), or a file or folder of your own")
      ->type_name("NAME|PATH")
      ->capture_default_str();
  command.add_option("--batch", o.batch, "Samples per worker and step")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 31))
      ->capture_default_str();
  command.add_option("--accumulate", o.accumulate, "Batches whose gradients make one step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--epochs", o.epochs, "Passes over the data")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  command
      .add_option("--steps", o.steps,
                  "Most steps to take; without --epochs, as many passes as they need")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  command.add_option("--seed", o.seed, "Of the model, the order of samples and all else by chance")
      ->capture_default_str();
}

void add_how(CLI::App& command, TrainOptions& o, const recipes::Defaults& defaults) {
  command
      .add_option(
          "--optimizer", o.optimizer,
          "sgd, momentum, nesterov, adagrad, adam, adamw, ftrl, lamb or lars, with settings as in "
          "adamw:beta2=0.95,decay=0.1")
      ->type_name("TEXT")
      ->capture_default_str();
  command.add_option("--rate", o.rate, "Learning rate")
      ->check(at_least(0, false))
      ->capture_default_str();
  command
      .add_option("--schedule", o.schedule,
                  fmt::format("Of the rate: constant, step, multistep, cosine, linear, onecycle or "
                              "plateau, as in cosine:min=0.01,warmup=100; default: {}{}",
                              defaults.schedule,
                              defaults.warmup > 0
                                  ? fmt::format(" with up to {} steps of warm-up", defaults.warmup)
                                  : ""))
      ->type_name("TEXT");
  command.add_option("--clip-norm", o.clip_norm, "Longest gradient of the whole model; 0: any")
      ->check(at_least(0, true))
      ->capture_default_str();
  command.add_option("--clip-value", o.clip_value, "Largest component of a gradient; 0: any")
      ->check(at_least(0, true))
      ->capture_default_str();
  command
      .add_option("--buffers", o.buffers,
                  "Statistics such as those of batch norm, before they are used: averaged over the "
                  "workers, broadcast from rank 0, or left as each has them")
      ->check(CLI::IsMember({"average", "broadcast", "leave"}))
      ->capture_default_str();
  command
      .add_option("--precision", o.precision,
                  "Of the computation; parameters and updates are float32 always")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  command
      .add_option("--plan", o.plan,
                  "How gradients meet and travel, as in \"update=bsp codec=topk:0.01\"")
      ->type_name("TEXT");
}

void add_where(CLI::App& command, TrainOptions& o) {
  command
      .add_option("--workers", o.workers,
                  "Processes to start; default: one for each GPU, else for each core")
      ->check(CLI::Range(1, kMostWorkers));
  command
      .add_option("--device", o.device,
                  "auto: CUDA if there is any, worker i on GPU i modulo their number")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  command.add_option("--threads", o.threads, "Per worker; default: cores / workers")
      ->check(CLI::Range(1, 4096));
  command.add_option("--loader-threads", o.loader_threads, "Per worker, to read samples ahead")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
}

void add_servers(CLI::App& command, TrainOptions& o) {
  command
      .add_option("--servers", o.servers,
                  "Parameter servers (home=server): so many processes; \"2,colocated\": inside the "
                  "first workers; HOST:PORT: those of the directory there")
      ->type_name("COUNT|ADDRESS");
  command
      .add_option("--server-secret", o.server_secret,
                  "With --servers HOST:PORT: the file that their --secret-file names")
      ->type_name("FILE");
  command
      .add_option("--replicas", o.replicas,
                  "Copies that servers keep of everything; default: 2, or 1 with one server")
      ->check(CLI::Range(1, 16));
  command
      .add_option("--straggle", o.straggle,
                  "Slow a worker down, to see what a plan is worth: \"rank=1,factor=4\"")
      ->type_name("TEXT");
  command
      .add_option("--delay", o.delay,
                  "Likewise all of them, by chance: exponential:20ms, constant:5ms, or "
                  "exponential:1x for as long as a step computes")
      ->type_name("TEXT");
}

void add_course(CLI::App& command, TrainOptions& o) {
  command
      .add_option("--eval-every", o.eval_every,
                  "Look at the test part every so many steps or epochs: 500, \"2 epochs\", never")
      ->type_name("INTERVAL")
      ->capture_default_str();
  command
      .add_option("--target-accuracy", o.target_accuracy, "Stop when this is reached, as in 0.9")
      ->check(CLI::Range(0.0, 1.0));
  command
      .add_option("--early-stop", o.patience,
                  "Stop after so many evaluations without a lower test loss")
      ->type_name("PATIENCE")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 31));
  command.add_option("--checkpoint", o.checkpoint, "Write checkpoints into this folder")
      ->type_name("DIR");
  command
      .add_option("--checkpoint-every", o.checkpoint_every,
                  "Likewise an interval; the last step always")
      ->type_name("INTERVAL")
      ->capture_default_str();
  command.add_option("--keep", o.keep, "The newest so many checkpoints stay")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      .add_flag("--resume{latest}", o.resume,
                "Go on from the newest checkpoint in --checkpoint, or with --resume=STEP from that")
      ->type_name("[=STEP]");
}

void add_output(CLI::App& command, TrainOptions& o) {
  command
      .add_option(
          "--record-gradients", o.record_gradients,
          "Write rank 0's own gradients of some steps into FILE (safetensors, up to 1 GiB), as "
          "backward made "
          "them: of 4 steps spread over the training, or of the first N multiples of every=N")
      ->type_name("FILE[,every=N][,steps=N]");
  command.add_option("--json", o.json, "Append the result to FILE as one line of JSON")
      ->type_name("FILE");
  command.add_option("--report", o.report, "Write a page with curves and the time of each worker")
      ->type_name("FILE");
  command.add_option("--log-every", o.log_every, "A line every so many steps; default: every 10 s")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  command.add_flag("--no-progress", o.quiet, "Evaluations and the summary only");
  command.add_option("--live", o.live_columns)->group("");  // from us to our workers
}

void add_own(CLI::App& command, recipes::Recipe& recipe) {
  for (const recipes::RecipeOption& option : recipe.options()) {
    const std::string flag = "--" + option.name;
    std::visit(
        [&](auto* value) {
          using T = std::remove_pointer_t<decltype(value)>;
          command.add_option(flag, *value, option.what)
              ->check(CLI::Range(static_cast<T>(option.least), static_cast<T>(option.most)))
              ->capture_default_str()
              ->group("Options of " + recipe.name());
        },
        option.value);
  }
}

}  // namespace

void add_train_options(CLI::App& command, TrainOptions& options, recipes::Recipe& recipe) {
  const recipes::Defaults defaults = recipe.defaults();
  options.data = defaults.data;
  options.batch = defaults.batch;
  options.optimizer = defaults.optimizer;
  options.rate = defaults.rate;
  options.clip_norm = defaults.clip_norm;
  options.eval_every = defaults.eval_every;
  // What is said again is meant: scripts add to the words that they are given.
  command.option_defaults()->take_last();
  add_what(command, options);
  add_how(command, options, defaults);
  add_where(command, options);
  add_servers(command, options);
  add_course(command, options);
  add_output(command, options);
  add_own(command, recipe);
  command
      .set_config("--config", "",
                  "Options from FILE, a line \"batch=32\" each; the command line goes first")
      ->type_name("FILE");
  command.allow_config_extras(CLI::config_extras_mode::error);
}

}  // namespace tally::app
