#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/train/loop_control.h"
#include "apps/train/option_texts.h"
#include "apps/train/train_options.h"
#include "apps/train/train_state.h"
#include "data/dataset.h"
#include "data/order.h"
#include "plan/plan.h"
#include "recipes/recipe.h"
#include "tally/checkpoint.h"
#include "tally/error.h"
#include "tally/job.h"
#include "tally/optimizer.h"
#include "tally/rate_schedule.h"

namespace tally::app {

// The checkpoint that a training continues from.
struct ResumePoint {
  std::filesystem::path checkpoint;
  std::uint64_t step = 0;
  TrainState state;
};

// The options, parsed and checked: everything a worker needs before it joins the others.
struct Preparation {
  OptimizerSpec optimizer;
  RateSchedule schedule;
  std::string schedule_advice;  // empty: none
  plan::Plan plan;
  bool has_late_gradients = false;  // policy::has_late_gradients()
  bool has_convolutions = false;    // Recipe::has_convolutions()
  ServerChoice servers;
  std::optional<Secret> server_secret;  // for standalone servers
  data::Strategy strategy = data::Strategy::kPartition;
  std::unique_ptr<data::Dataset> train;
  std::unique_ptr<data::Dataset> test;
  std::string data_facts;  // one line on data of the user's own; empty for other data
  recipes::Task task = recipes::Task::kClassification;
  std::uint64_t batches_per_epoch = 0;
  std::uint64_t epoch_count = 0;  // 0: as many as the steps need
  LoopControlOptions control;
  std::optional<ResumePoint> resume;
  // Not empty: the checkpoint is the end of its training. Says so, and how to train further.
  std::string completion;
  std::string record_file;                  // of --record-gradients; empty: none
  std::vector<std::uint64_t> record_steps;  // the steps that are still to come
};

struct WorkerCounts {
  int all = 1;
  int here = 1;  // on this host, whose memory they share
};

// Opens the data and checks every option. kInvalid, kSystem, kCorrupt or kExhausted in one line,
// with the remedy.
Result<Preparation> prepare(const TrainOptions& options, const recipes::Recipe& recipe,
                            const WorkerCounts& workers, const std::filesystem::path& cache);

// Checks that all outputs can be written. For the process that starts the workers.
Result<void> check_outputs(const TrainOptions& options);

// Checks that a checkpoint has the tensors of the model. kInvalid names the first difference.
Result<void> check_tensors(const std::vector<checkpoint::TensorInfo>& saved,
                           const std::vector<checkpoint::TensorInfo>& wanted);

}  // namespace tally::app
