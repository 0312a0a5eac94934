#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "exchange/exchange.h"
#include "exchange/group/backup_update.h"
#include "exchange/group/group_update.h"
#include "policy/rules.h"

namespace tally::exchange {

// home=group: ranks sum gradients and update parameters among themselves. With update=backup:B they
// are not in step: background() takes part in the updates while this rank computes.
class GroupExchange final : public Exchange,
                            private GradientMemory,
                            private Meetings,
                            private CheckpointState {
 public:
  struct Options {
    GroupUpdate::Options update;
    policy::Rules rules;
    // Writes the initial values of a parameter. Called on rank 0.
    std::function<void(std::size_t parameter, std::span<std::byte> values)> initial;
    std::function<void()> pause = {};  // as BackupUpdate::Options::pause
  };
  // Called by all ranks; all ranks get the initial values of rank 0. `replicas` must outlive the
  // exchange.
  static Result<std::unique_ptr<GroupExchange>> make(Communicator& replicas, Options options,
                                                     Deadline by);
  ~GroupExchange() override;

  Result<StepChoice> begin() override;
  Result<bool> announce(const StepContribution& contribution) override;
  Result<void> ready(std::size_t parameter, const std::byte* elsewhere) override;
  bool reads_elsewhere() const override { return update_->alone_on_host(); }
  Result<StepTotals> complete(const StepContribution& contribution) override;
  Result<void> drain(const StepContribution& rest) override;
  Result<void> reform(Communicator& replicas) override;
  std::uint64_t steps() const override {
    return backup_ ? first_step_ + version_ : update_->updates();
  }
  DataType type(std::size_t parameter) const override {
    return update_->parameters()[parameter].type;
  }
  std::span<std::byte> values(std::size_t parameter) const override {
    return update_->values(parameter, backup_ ? generation_ : update_->present());
  }
  std::span<std::byte> gradient(std::size_t parameter) override {
    return update_->gradient(parameter);
  }
  // The first update moves gradients to other buckets. With backups a thread reads the list of the
  // memory that add() changes.
  GradientMemory* gradient_memory() override {
    return order_is_settled_ && !backup_ ? this : nullptr;
  }
  Background* background() override { return backup_.get(); }
  Meetings& meetings() override { return *this; }
  CheckpointState& checkpoint() override { return *this; }
  Statistics statistics() const override;

 private:
  GroupExchange(Communicator& replicas, Options options)
      : replicas_(&replicas), options_(std::move(options)) {}

  Result<void> connect(Deadline by);
  Deadline after(Duration timeout) const;
  void complete_order();
  policy::Rules rules_for(int workers) const;
  bool takes_part() const;
  Result<void> settle_order();
  Result<StepTotals> complete_together(const StepContribution& contribution, bool draining,
                                       double* drained);
  Result<StepTotals> offer(const StepContribution& contribution);
  void follow(const BackupUpdate::Taken& taken);
  void end_update();

  std::shared_ptr<const void> owner() const override { return update_->gradient_owner(); }
  Result<std::span<std::byte>> add(std::size_t bytes) override {
    return update_->add_gradients(bytes);
  }

  bool in_step() const override { return backup_ == nullptr; }
  bool is_first() const override { return replicas_->rank() == 0; }
  Result<void> sum(std::span<double> values) override;
  Result<void> broadcast(std::span<std::byte> bytes) override;
  Result<void> meet(std::span<double> values) override;
  bool is_due(std::uint64_t step) override { return steps() >= step; }

  Result<std::vector<SliceState>> states() override { return update_->saved_states(); }
  std::vector<CodecTensor> codec_tensors() const override;
  Result<std::vector<CodecState>> codec_states() override { return update_->codec_states(); }
  Sender sender() const override { return update_->sender(); }
  SavedCourse course() const override;
  std::uint64_t updates_of(const SavedCourse& course) const override { return course.steps; }
  Result<void> restore(const checkpoint::Reader& reader, const SavedCourse& course) override;

  // The update that the last reform() has continued. It is needed again if that reform() has failed
  // on some ranks.
  struct Former {
    std::int64_t number = 0;
    std::unique_ptr<Communicator> own_world;
    std::unique_ptr<GroupUpdate> update;
  };

  struct Continued {
    std::int64_t number = 0;
    std::int64_t next_number = 0;
  };
  Result<Continued> agree_on_update(Communicator& replicas) const;

  Communicator* replicas_;
  Options options_;
  std::int64_t number_ = 0;         // of update_: the reform() that made it, the same on all ranks
  std::unique_ptr<Former> former_;  // until all ranks are known to have ended the last reform()
  std::unique_ptr<Communicator> own_world_;  // for backup_; null: `replicas_` is used
  std::unique_ptr<GroupUpdate> update_;
  std::unique_ptr<BackupUpdate> backup_;  // null: updates wait for all ranks

  // The order in which gradients became ready in the first update; fixed from then on.
  std::vector<std::size_t> order_;
  bool order_is_settled_ = false;
  bool is_announced_ = false;
  std::vector<BackupUpdate::Offer::Ready> ready_;  // without announce(): for complete()

  // With backup_.
  std::uint64_t first_step_ = 0;  // steps() at version 0, modulo 2^64
  std::uint64_t version_ = 0;     // at which this rank computes
  int generation_ = 0;            // of the memory with that version
  Duration waited_{};
  policy::Histogram staleness_;
  std::uint64_t dropped_ = 0;
};

}  // namespace tally::exchange
