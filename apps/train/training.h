#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include <torch/torch.h>

#include "apps/train/batches.h"
#include "apps/train/data_division.h"
#include "apps/train/gradient_recorder.h"
#include "apps/train/loop_control.h"
#include "apps/train/model_state.h"
#include "apps/train/preparation.h"
#include "apps/train/train_console.h"
#include "apps/train/train_options.h"
#include "apps/train/training_log.h"
#include "base/mutex.h"
#include "recipes/model.h"
#include "recipes/recipe.h"
#include "server/snapshot/row_snapshots.h"
#include "tally/checkpoint.h"
#include "tally/job.h"
#include "tally/torch.h"
#include "train/balance.h"
#include "train/loader.h"

namespace tally::app {

// The training of one worker: batches, steps, evaluations, checkpoints and the end, as LoopControl
// decides, together with all other workers. Failures are thrown: Failure, Divergence, c10::Error,
// std::bad_alloc.
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
    TrainingRecord record;  // facts that are known beforehand
    ServerOptions servers;  // for plans with home=server
    ModelState model_state;
    std::function<void(Trainer&)> assign_rows;  // of --init, on servers; empty: none
    std::string why_no_graphs;  // why no step of this job can be captured; empty: they may be
  };
  explicit Training(Parts parts);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // Trains from the beginning or the checkpoint to the end. Collective.
  StopReason run();
  // After run(): completes the record on all ranks, with the times of each. Collective.
  TrainingRecord& finish(StopReason reason);
  // Whether this worker is the lowest that is left, which reports the result.
  bool is_first() const { return division_.place() == 0; }
  // The last step that this run has saved; 0: none.
  std::uint64_t saved_step() const { return last_save_step_; }
  // Writes the gradients of --record-gradients, on rank 0. Returns a message for the user; empty if
  // none were requested.
  Result<std::string> write_gradients() const;

 private:
  void resume(const ResumePoint& point);
  // Begins to read this worker's batches from its position in the division on.
  void open_loader();
  Duration data_wait() const { return waited_before_ + loader_->waited(); }
  // One update, of all its batches.
  void step();
  // Adds what the trainer has reported to the record.
  void log_reported();
  // With --balance speed, gives the workers new parts of a step now and then. Collective.
  void balance();
  // Adds a point to the curves of the record if enough steps were made since the last one.
  void add_point();
  std::optional<LossWindows> mean_loss_windows();
  void evaluate();
  void save();
  // Takes the outcome of the save of `step`, and reports a failure.
  void note_saving(std::uint64_t step, const Result<void>& outcome);
  // Learns now and then whether any rank was asked to stop.
  void exchange_interruptions();
  // Adds this worker's report for the division of the data to values that all workers sum, and
  // takes the sums of the reports out of the sums. Learns there which workers were lost.
  std::vector<double> with_report(std::vector<double> values) const;
  std::vector<double> take_reports(std::vector<double> sums);
  // Whether all workers are synchronised after this step; if so, exchanges their progress.
  bool come_together();
  bool has_servers() const { return with_.prepared.plan.home == plan::Home::kServer; }
  bool saves() const { return !with_.options.checkpoint.empty(); }
  checkpoint::Writer& writer();
  // Removes the snapshots of removed checkpoints, but not the one that belongs to a running save.
  void remove_old_snapshots(const std::filesystem::path& current);
  void take_figures(TrainingRecord& record);
  void show_progress();
  double epochs() const;
  Duration elapsed() const;
  // The expected time to the last step.
  Duration left() const;

  Parts with_;
  LoopControl control_;
  // What the trainer has reported and the log has not taken yet. The trainer may report from other
  // threads.
  struct Reported {
    Mutex mutex;
    std::vector<std::string> sentences TALLY_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Reported> reported_;  // of this object and of the trainer's callback
  Trainer trainer_;
  std::unique_ptr<GradientRecorder> recorder_;  // only if gradients are recorded
  DataDivision division_;
  DeviceBatches batches_;
  std::unique_ptr<train::Loader> loader_;  // reads into the memory of batches_
  Duration waited_before_{};               // for earlier loaders
  // With servers, the first worker writes checkpoints alone, in a job of one rank.
  std::vector<std::unique_ptr<Job>> alone_;
  std::unique_ptr<checkpoint::Writer> writer_;
  std::unique_ptr<server::RowSnapshotRetention> snapshots_;  // with servers, beside writer_
  TrainingLog log_;

  Moment done_;
  Moment together_;                 // the last synchronisation
  std::uint64_t next_meeting_ = 0;  // a step; for workers that are not synchronous
  const Pace pace_;
  std::uint64_t own_samples_ = 0;
  train::ComputeSpeed speed_;
  std::uint64_t saving_step_ = 0;       // of the last save that began
  std::uint64_t last_save_step_ = 0;    // of the last save that was due
  std::uint64_t last_failed_step_ = 0;  // of the last save that failed
  const TimePoint began_;
  std::uint64_t first_step_ = 0;      // of this run
  std::uint64_t agreement_step_ = 0;  // the next exchange of interruptions
  std::uint64_t agreed_step_ = 0;     // the last one
  Duration agreed_at_{};
  bool interrupted_ = false;
  std::uint64_t point_every_ = 1;
  std::uint64_t pointed_ = 0;  // step of the last point of the curves
  Duration shown_at_{};
  std::uint64_t shown_units_ = 0;
  RunningMean shown_loss_;      // since the last line of progress
  RunningMean evaluated_loss_;  // since the last evaluation
  LossTrend loss_trend_;
};

}  // namespace tally::app
