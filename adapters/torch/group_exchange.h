#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "adapters/torch/bucketed_module.h"
#include "adapters/torch/model_exchange.h"
#include "exchange/group/backup_exchange.h"
#include "policy/rules.h"
#include "tally/job.h"

namespace tally::adapter {

// home=group: ranks sum gradients and update parameters among themselves. With update=backup:B they
// are not in step: a thread then takes part in the updates for this rank.
class GroupExchange final : public ModelExchange {
 public:
  // Collective; copies the values of rank 0 to all ranks.
  GroupExchange(Job& job, std::vector<NamedTensor> parameters,
                const exchange::GroupUpdate::Options& options, const policy::Rules& rules);
  ~GroupExchange() override;

  const std::vector<exchange::ParameterInfo>& parameters() const override;
  bool begin() override;
  void announce(const StepGift& gift) override;
  bool is_announced() const override { return model_->is_announced(); }
  StepResult complete(const StepGift& gift) override;
  void forget_gradients() override { model_->forget_gradients(); }
  void settle() override { model_->settle(); }
  std::unique_ptr<FirstUse> await_use() override { return model_->await_use(); }
  void drain(const StepGift& first) override;
  std::uint64_t steps() const override { return steps_; }
  bool in_step() const override { return backup_ == nullptr; }
  std::vector<double> sum(std::vector<double> values) override;
  std::vector<double> meet(std::vector<double> values) override;
  bool is_first() const override { return job_.rank() == 0; }
  void broadcast(const std::vector<NamedTensor>& tensors) override;
  exchange::UpdateTimes times() const override;
  const policy::Histogram& staleness() const override { return staleness_; }
  std::uint64_t dropped() const override { return dropped_; }
  std::vector<exchange::SliceState> states() override {
    return or_throw(model_->update().saved_states());
  }
  std::vector<exchange::CodecTensor> codec_tensors() const override;
  std::vector<exchange::CodecState> codec_states() override {
    return or_throw(model_->update().codec_states());
  }
  exchange::Sender sender() const override { return model_->update().sender(); }
  SavedCourse course() const override;
  void restore(const checkpoint::Reader& reader, const SavedCourse& course) override;
  std::size_t state_bytes() override;

 private:
  bool takes_part() const;
  StepResult complete_together(const StepGift& gift, bool draining, double* drained);
  StepResult offer(const StepGift& gift);
  void follow(std::uint64_t version);

  Job& job_;
  const policy::Rules rules_;
  const std::vector<OptimizerSpec> optimizers_;
  const plan::CodecSpec codec_;
  std::unique_ptr<Communicator> own_world_;  // for backup_; null: the job's is used
  std::unique_ptr<BucketedModule> model_;
  std::unique_ptr<exchange::BackupExchange> backup_;  // null: updates wait for all ranks
  std::uint64_t steps_ = 0;
  std::uint64_t first_step_ = 0;  // steps() at version 0 of backup_, modulo 2^64
  std::uint64_t version_ = 0;     // of backup_, at which this rank computes
  Duration waited_{};
  policy::Histogram staleness_;
  std::uint64_t dropped_ = 0;
};

}  // namespace tally::adapter
