#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapters/torch/bucketed_module.h"
#include "adapters/torch/tensors.h"
#include "tally/torch.h"

namespace tally {

class Trainer::Impl {
 public:
  Impl(Job& job, torch::nn::Module& module, const OptimizerSpec& optimizer, TrainerOptions options);

  StepOutcome step(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss);
  StepOutcome apply(std::uint64_t samples, double loss);
  void zero_grad();
  void drain();
  void synchronise_buffers();
  double rate() const { return optimizers_.front().rate * options_.schedule.factor(steps_); }
  std::uint64_t steps() const { return steps_; }
  RateSchedule& schedule() { return options_.schedule; }
  TimeSplit times() const;
  std::size_t state_bytes();
  std::vector<double> sum(std::vector<double> values);

  // trainer_state.cc
  checkpoint::Content checkpoint();
  void restore(const checkpoint::Reader& reader);

 private:
  // What the calls of step() since the last update have brought.
  struct Pending {
    int calls = 0;
    std::uint64_t samples = 0;
    double loss_sum = 0;
    std::uint64_t unit = 0;  // samples of the first of them, whose gradient is not scaled
    train::StepContribution contribution() const {
      return {.samples = static_cast<double>(samples), .weight = static_cast<double>(unit)};
    }
  };

  void check_whole() const;
  void check_untrained();
  void set_rates();
  train::StepTotals complete(const train::StepContribution& contribution, double loss_sum,
                             bool draining);
  StepOutcome outcome_of(const train::StepTotals& totals);
  void backward(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss, bool is_last);
  void broadcast_from_first(const std::vector<adapter::NamedTensor>& tensors);
  void average(const std::vector<adapter::NamedTensor>& tensors);

  std::vector<checkpoint::TensorInfo> model_infos() const;
  std::vector<checkpoint::TensorInfo> state_infos() const;
  std::vector<std::string> state_names_of(std::size_t parameter) const;
  void check_fits(const checkpoint::Reader& reader) const;
  std::string state_text() const;
  void restore_state(const std::string& text);
  void read_values(const checkpoint::Reader& reader);

  Job& job_;
  TrainerOptions options_;
  std::vector<OptimizerSpec> optimizers_;  // by group
  adapter::ModuleTensors tensors_;
  std::unique_ptr<adapter::BucketedModule> model_;
  std::uint64_t steps_ = 0;
  Pending pending_;
  bool is_broken_ = false;  // backward ended in the middle of an announced step
  Duration in_steps_{};
  std::vector<at::Tensor> saved_;  // copies that checkpoint() points to
};

}  // namespace tally
