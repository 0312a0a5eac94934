#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "apps/tally/command_line.h"
#include "apps/tally/host_options.h"
#include "apps/tally/read_words.h"
#include "recipes/recipe.h"

namespace tally::app {

// The default interval between checkpoints.
inline constexpr const char* kCheckpointEvery = "1 epoch";

// Exit code of `tally train` if the training has diverged.
inline constexpr int kDivergedExitCode = 3;

// Options of the command line and of the --config file. prepare() parses the texts.
struct TrainOptions {
  int workers = 0;  // 0: one per GPU, or else per core
  int max_restarts = 0;
  std::string job;  // name of the job; empty: the launcher's
  HostOptions hosts;
  std::string data;
  ReadWords read;
  std::uint64_t batch = 64;
  std::optional<std::uint64_t> epochs;
  std::uint64_t steps = 0;  // 0: no limit
  std::string optimizer;
  std::optional<double> rate;  // empty: of the recipe, or of another optimizer
  std::string schedule;        // empty: the recipe's
  std::string plan;
  std::string init;  // weights to start from; empty: random ones
  std::uint64_t seed = 1;
  double clip_norm = 0;   // 0: unlimited
  double clip_value = 0;  // 0: unlimited
  int accumulate = 1;
  std::string buffers = "average";
  std::string precision = "float32";
  double loss_scale = 65536;  // with float16
  bool tf32 = false;
  std::string channels_last = "auto";  // on, off
  bool graphs = false;
  std::string balance = "even";  // or speed

  // Parameter servers, as parse_servers() reads them; empty: inside the workers if the plan needs
  // any.
  std::string servers;
  std::string server_secret;     // secret file of standalone servers; empty: they have no secret
  int replicas = 0;              // 0: two, or one if there is one server
  std::string lost_after = "0";  // as launch::parse_time() reads it
  std::string replica = "host";
  bool in_place = false;
  bool shard_state = false;
  std::string straggle;  // as train::parse_stragglers() and parse_delay() read them
  std::string delay;

  std::string checkpoint;                       // folder; empty: no checkpoints
  std::optional<std::string> checkpoint_every;  // empty: kCheckpointEvery
  int keep = 3;
  std::string resume;  // "latest", "auto" or a step; empty: start from the beginning
  std::optional<std::string> eval_every;  // empty: of the recipe
  std::optional<double> target_accuracy;
  std::uint64_t patience = 0;  // 0: no early stop

  std::string record_gradients;  // as parse_record_choice() reads it; empty: none
  std::string json;
  std::string report;
  std::string device = "auto";  // as parse_devices() reads it
  int threads = 0;              // 0: cores / workers
  int loader_threads = 1;
  std::uint64_t log_every = 0;  // steps; 0: by time
  bool quiet = false;
  std::string command;   // the command line, for the record
  int live_columns = 0;  // columns of the launcher's terminal; 0: no terminal
};

// Adds the options for `recipe`, with its defaults, and its own options. Both must outlive the
// parsing.
void add_train_options(Command& command, TrainOptions& options, recipes::Recipe& recipe);

// One worker of a job that a launcher started: joins the job and trains; rank 0 reports and writes
// the result. A failure is one line with the rank. Returns the exit code: 0; 1 after a failure; 130
// after an interruption.
int run_worker(const TrainOptions& options, recipes::Recipe& recipe);

}  // namespace tally::app
