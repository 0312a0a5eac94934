#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/tally/command_line.h"
#include "recipes/recipe.h"

namespace tally::app {

// What the command line, or the file of --config, says. Texts are looked at by prepare().
struct TrainOptions {
  int workers = 0;  // 0: as many as there are GPUs, or else cores
  std::string data;
  std::uint64_t batch = 64;
  std::optional<std::uint64_t> epochs;
  std::uint64_t steps = 0;  // 0: no limit
  std::string optimizer;
  double rate = 0.1;
  std::string schedule;  // empty: the recipe's
  std::string plan;
  std::uint64_t seed = 1;
  double clip_norm = 0;   // 0: not
  double clip_value = 0;  // 0: not
  int accumulate = 1;
  std::string buffers = "average";
  std::string precision = "float32";

  // Parameter servers, as parse_servers() reads it; empty: inside the workers if the plan wants
  // any.
  std::string servers;
  std::string
      server_secret;     // file with the secret of servers that stand alone; empty: they have none
  int replicas = 0;      // 0: two, or one where there is one server
  std::string straggle;  // as train::parse_stragglers() and parse_delay() read them
  std::string delay;

  std::string checkpoint;  // folder; empty: none are written
  std::string checkpoint_every = "1 epoch";
  int keep = 3;
  std::string resume;  // empty: not; "latest", or a step
  std::string eval_every;
  std::optional<double> target_accuracy;
  std::uint64_t patience = 0;  // 0: no early stop

  std::string record_gradients;  // as parse_record_choice() reads it; empty: none
  std::string json;
  std::string report;
  std::string device = "auto";
  int threads = 0;  // 0: cores / workers
  int loader_threads = 1;
  std::uint64_t log_every = 0;  // steps; 0: by time
  bool quiet = false;
  int live_columns = 0;  // of a terminal that shows our output; 0: it is none
};

// Puts the options for `recipe` on `command`, with its defaults, and those that only it has. Both
// must outlive the parsing.
void add_train_options(Command& command, TrainOptions& options, recipes::Recipe& recipe);

}  // namespace tally::app
