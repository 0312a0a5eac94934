#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "adapters/torch/bound_exchange.h"
#include "adapters/torch/server_embeddings.h"
#include "adapters/torch/shard_course.h"
#include "adapters/torch/tensors.h"
#include "exchange/group/group_exchange.h"
#include "plan/plan.h"
#include "policy/rules.h"
#include "tally/torch.h"
#include "train/disturbance.h"

namespace tally {

class Trainer::Impl {
 public:
  Impl(Job& job, torch::nn::Module& module, const OptimizerSpec& optimizer, TrainerOptions options);

  StepOutcome step(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss);
  StepOutcome apply(std::uint64_t samples, double loss);
  void zero_grad();
  void drain();
  void settle() { model_->settle(); }
  void synchronise_buffers();
  double rate() const { return optimizers_.front().rate * options_.schedule.factor(steps()); }
  std::uint64_t steps() const { return model_->exchange().steps(); }
  RateSchedule& schedule() { return options_.schedule; }
  TimeSplit times() const;
  PolicyFigures figures() const;
  std::size_t state_bytes() { return model_->exchange().statistics().state_bytes; }
  std::size_t memory_bytes() const { return model_->exchange().statistics().memory_bytes; }
  bool is_first() const { return meetings().is_first(); }
  bool in_step() const { return meetings().in_step(); }
  std::vector<double> sum(std::vector<double> values) {
    settle();
    return model_->sum(std::move(values));
  }
  bool is_due(std::uint64_t step) { return meetings().is_due(step); }
  std::vector<double> meet(std::vector<double> values) {
    settle();
    return model_->meet(std::move(values));
  }

  void assign_rows(const std::string& embedding, std::span<const std::uint64_t> keys,
                   std::span<const float> rows);

  // Defined in trainer_shards.cc.
  Shard shard(at::Tensor x, at::Tensor y, const ShardOptions& options);

  // Defined in trainer_state.cc.
  checkpoint::Content checkpoint();
  void restore(const checkpoint::Reader& reader);

 private:
  // The sum of the step() calls since the last update.
  struct Pending {
    int calls = 0;
    std::uint64_t samples = 0;
    double loss_sum = 0;
    std::uint64_t unit = 0;  // samples of the first call, whose gradient is not scaled
    exchange::StepContribution contribution() const {
      return {.samples = static_cast<double>(samples),
              .weight = static_cast<double>(unit),
              .loss_sum = loss_sum};
    }
  };

  exchange::Meetings& meetings() const { return model_->exchange().meetings(); }
  std::unique_ptr<exchange::Exchange> make_exchange();
  std::unique_ptr<exchange::Exchange> make_server_exchange(
      const exchange::GroupUpdate::Options& update, const policy::Rules& rules);
  void check_whole() const;
  void check_memory() const;
  void check_untrained();
  exchange::StepContribution with_rates(exchange::StepContribution contribution) const;
  StepOutcome complete(const exchange::StepContribution& contribution);
  at::Tensor forward(const std::function<at::Tensor()>& mean_loss);
  void backward(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss, bool is_last);
  void compute(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss, bool is_last);
  void average(const std::vector<adapter::NamedTensor>& tensors);

  void count_batches();
  std::vector<adapter::SavedShard> shard_positions() const;
  void restore_shards(std::vector<adapter::SavedShard> saved);

  std::vector<checkpoint::TensorInfo> model_infos() const;
  std::vector<checkpoint::TensorInfo> state_infos() const;
  std::vector<std::string> state_names_of(std::size_t parameter) const;
  void add_codec_states(checkpoint::Content& content);
  void check_fits(const checkpoint::Reader& reader) const;
  void check_warm_up(const checkpoint::Reader& reader, std::uint64_t steps) const;
  std::string state_text() const;
  exchange::SavedCourse restore_state(const std::string& text);
  void read_untrained(const checkpoint::Reader& reader);

  Job& job_;
  TrainerOptions options_;
  const plan::Plan plan_;
  std::vector<OptimizerSpec> optimizers_;  // by group; groups of compressed parameters are last
  // Only with servers. Created before the module's parameters are listed, because embeddings then
  // have none. Must outlive the exchange.
  std::unique_ptr<adapter::ServerEmbeddings> embeddings_;
  const std::vector<std::string> embedding_names_;  // of the module, whatever their home
  adapter::ModuleTensors tensors_;
  std::vector<exchange::ParameterInfo> infos_;  // of the trained tensors
  train::Disturbance disturbance_;
  std::unique_ptr<adapter::BoundExchange> model_;
  // The parameters where the exchange has placed them; they follow when it moves its memory.
  std::vector<at::Tensor> placed_;
  Pending pending_;
  bool takes_part_ = true;   // in the current update
  std::uint64_t calls_ = 0;  // of step()
  bool is_broken_ = false;   // backward failed in the middle of an announced step
  Duration in_steps_{};
  Duration disturbed_{};
  std::vector<at::Tensor> saved_;                              // copies that checkpoint() points to
  std::vector<std::shared_ptr<adapter::ShardCourse>> shards_;  // in the order of shard() calls
  std::vector<adapter::SavedShard> saved_shards_;              // of the restored checkpoint
};

}  // namespace tally
