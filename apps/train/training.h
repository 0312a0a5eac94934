#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <torch/torch.h>

#include "apps/train/gradient_recorder.h"
#include "apps/train/loop_control.h"
#include "apps/train/preparation.h"
#include "apps/train/train_console.h"
#include "apps/train/train_options.h"
#include "apps/train/training_log.h"
#include "recipes/model.h"
#include "recipes/recipe.h"
#include "tally/checkpoint.h"
#include "tally/job.h"
#include "tally/torch.h"
#include "train/loader.h"

namespace tally::app {

// One worker's training: takes batches, steps, evaluates, saves and stops, as the LoopControl decides,
// together with all others. Everything that fails is thrown: Failure, c10::Error, std::bad_alloc.
class Training final {
 public:
  struct Parts {
    Job& job;
    const TrainOptions& options;
    recipes::Recipe& recipe;
    const Preparation& prepared;
    recipes::Model& model;
    at::Device device;
    TrainConsole& console;
    TrainingRecord record;  // what is known of it beforehand
    ServerOptions servers;  // of a plan with home=server
  };
  explicit Training(Parts parts);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // From the beginning or the checkpoint to the end. Collective.
  StopReason run();
  // After run(): the record, complete on all ranks with the times of each. Collective.
  TrainingRecord& finish(StopReason reason);
  // Whether this worker was the first of those who came to finish(): who tells the result.
  bool is_first() const { return is_first_; }
  // What --record-gradients took, on rank 0: written to its file. A sentence for people, or nothing
  // where none was asked for.
  Result<std::string> write_gradients() const;

 private:
  void resume(const ResumePoint& point);
  // One update, of as many batches as it takes.
  void step();
  void evaluate();
  void save();
  // Takes the outcome of the last save, if there was one, and tells it where it is bad.
  void note_saving(const Result<void>& outcome);
  // Whether any rank was told to stop, as of the last time that all asked each other.
  bool interrupted_anywhere();
  // Whether all workers are together after this step, and then what they have done; sees to it
  // where they are not in step.
  bool come_together();
  bool has_servers() const { return with_.prepared.plan.home == plan::Home::kServer; }
  bool saves() const { return !with_.options.checkpoint.empty(); }
  checkpoint::Writer& writer();
  void take_figures(TrainingRecord& record);
  void show_progress();
  double epochs() const;
  Duration elapsed() const;

  Parts with_;
  LoopControl control_;
  Trainer trainer_;
  std::unique_ptr<GradientRecorder> recorder_;  // where gradients are recorded
  std::unique_ptr<train::Loader> loader_;
  // With servers whoever is the first writes alone: a job of one.
  std::vector<std::unique_ptr<Job>> alone_;
  std::unique_ptr<checkpoint::Writer> writer_;
  TrainingLog log_;

  Moment done_;
  Moment together_;                 // where all were together the last time
  std::uint64_t next_meeting_ = 0;  // a step; where workers are not in step
  const Pace pace_;
  std::uint64_t own_samples_ = 0;
  bool is_first_ = false;
  const TimePoint began_;
  std::uint64_t first_step_ = 0;      // of this run
  std::uint64_t agreement_step_ = 0;  // the next at which ranks ask each other
  std::uint64_t agreed_step_ = 0;     // and the last
  Duration agreed_at_{};
  bool interrupted_ = false;
  std::uint64_t point_every_ = 1;
  std::uint64_t pointed_ = 0;  // step of the last point between meetings
  Duration shown_at_{};
  std::uint64_t shown_units_ = 0;
  RunningMean shown_loss_;      // since progress was shown
  RunningMean evaluated_loss_;  // since the last evaluation
};

}  // namespace tally::app
