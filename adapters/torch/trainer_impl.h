#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/torch/bound_exchange.h"
#include "adapters/torch/capture_rule.h"
#include "adapters/torch/gpu.h"
#include "adapters/torch/loss_reader.h"
#include "adapters/torch/server_embeddings.h"
#include "adapters/torch/tensors.h"
#include "data/shard_course.h"
#include "exchange/exchange.h"
#include "exchange/saved_model.h"
#include "plan/plan.h"
#include "tally/torch.h"
#include "train/disturbance.h"
#include "train/loss_scaler.h"

namespace tally {

class Trainer::Impl {
 public:
  Impl(Job& job, torch::nn::Module& module, const OptimizerSpec& optimizer, TrainerOptions options);

  adapter::BoundExchange& bound() { return *bound_; }
  exchange::Exchange& exchange() const { return bound_->exchange(); }
  RateSchedule& schedule() { return options_.schedule; }

  StepOutcome step(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss);
  StepOutcome apply(std::uint64_t samples, double loss);
  void zero_grad();
  void drain();
  double rate() const;
  double loss_scale() const { return options_.loss_scale ? scaler_.scale : 1; }
  std::uint64_t discarded() const { return discarded_; }
  TimeSplit times() const;
  void assign_rows(const std::string& embedding, std::span<const std::uint64_t> keys,
                   std::span<const float> rows);

  void synchronise_buffers();
  Shard shard(at::Tensor x, at::Tensor y, const ShardOptions& options);  // shard.cc
  checkpoint::Content checkpoint();                                      // trainer_state.cc
  void restore(const checkpoint::Reader& reader);                        // trainer_state.cc

 private:
  // The sum of the step() calls since the last update.
  struct Pending {
    int calls = 0;
    std::uint64_t samples = 0;
    std::uint64_t unit = 0;  // samples of the first call, whose gradient is not scaled
  };
  // The gradients are scaled like the loss.
  exchange::StepContribution contribution_of(const Pending& pending) const {
    return {.samples = static_cast<double>(pending.samples),
            .weight = static_cast<double>(pending.unit) / loss_scale()};
  }

  std::unique_ptr<exchange::Exchange> make_exchange();
  void check_whole() const;
  void check_untrained();
  exchange::StepContribution with_rates(exchange::StepContribution contribution) const;
  StepOutcome complete(exchange::StepContribution contribution);
  void count_outcome(bool is_discarded);
  at::Tensor forward(const std::function<at::Tensor()>& mean_loss);
  void backward(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss, bool is_last);
  void compute(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss, bool is_last);
  std::string why_not_captured() const;
  void tell_no_graphs(std::string_view why) const;
  bool compute_captured(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss);
  void capture(const std::function<at::Tensor()>& mean_loss);
  void average(const std::vector<adapter::NamedTensor>& tensors);

  std::vector<checkpoint::TensorInfo> tensor_infos() const;

  Job& job_;
  TrainerOptions options_;
  const plan::Plan plan_;
  // The trained tensors; groups of compressed parameters are last.
  exchange::TrainedModel model_;
  // Only with servers. Created before the module's parameters are listed, because embeddings then
  // have none. Must outlive the exchange.
  std::unique_ptr<adapter::ServerEmbeddings> embeddings_;
  const std::vector<std::string> embedding_names_;  // of the module, whatever their home
  adapter::ModuleTensors tensors_;
  train::Disturbance disturbance_;
  std::unique_ptr<adapter::Gpu> gpu_;          // null: the CPU, or no kernels for the GPU
  std::unique_ptr<adapter::StepGraph> graph_;  // null: no graphs
  std::unique_ptr<adapter::BoundExchange> bound_;
  Pending pending_;
  adapter::LossReader losses_;  // of pending_
  // With graph_; shared with the shards. After a failed capture steps still run on the stream of
  // the graph, for which the hooks are.
  std::shared_ptr<adapter::CaptureRule> capture_rule_;
  at::Tensor captured_loss_;
  train::LossScaler scaler_;              // if options_.loss_scale
  std::uint64_t discarded_ = 0;           // updates
  std::uint64_t discarded_in_a_row_ = 0;  // up to the last update
  bool takes_part_ = true;                // in the current update
  std::uint64_t calls_ = 0;               // of step()
  bool is_broken_ = false;                // backward failed in the middle of an announced step
  Duration in_steps_{};
  std::vector<at::Tensor> saved_;  // copies that checkpoint() points to
  data::ShardCourses shards_;
};

}  // namespace tally
