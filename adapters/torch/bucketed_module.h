#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "adapters/torch/first_use.h"
#include "adapters/torch/gradient_hooks.h"
#include "adapters/torch/tensors.h"
#include "exchange/group/group_update.h"
#include "tally/job.h"

namespace tally::adapter {

// The trained parameters of a module, moved into the memory of a GroupUpdate. On the CPU each
// parameter is a view of that memory; so is its gradient after the first backward. Parameters on
// another device stay there: gradients are copied to the host and new values back.
class BucketedModule final {
 public:
  // Collective. Values differ between ranks until spread_values().
  BucketedModule(Communicator& world, std::vector<NamedTensor> parameters,
                 const exchange::GroupUpdate::Options& options);
  // Gives the parameters memory of their own again.
  ~BucketedModule();
  BucketedModule(const BucketedModule&) = delete;
  BucketedModule& operator=(const BucketedModule&) = delete;

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  exchange::GroupUpdate& update() { return *update_; }
  const exchange::GroupUpdate& update() const { return *update_; }

  // Copies the values of rank 0 to all ranks. Collective.
  void spread_values();
  // Applies the values in the update's memory to the parameters, on other devices too. Collective.
  void adopt_values();
  // Clears the gradients; the next backward starts with none.
  void forget_gradients();

  // The coming backward is the last before complete(), with gradients of this weight: buckets may
  // be processed as soon as they are complete. Without announce() gradients are only collected.
  void announce(const exchange::StepContribution& contribution);
  // Whether other ranks rely on the announced gradients: the step must then be completed.
  bool is_announced() const { return announced_; }
  // Moves gradients that lie elsewhere into the buckets, for a caller that completes the update in
  // another way. Returns the parameters that have a gradient.
  std::vector<std::size_t> gather();
  // Copies values that the update changed to parameters on other devices.
  void values_to_devices();
  // Collective.
  exchange::UpdateTotals complete(const exchange::StepContribution& contribution,
                                  std::span<const double> sums);

  // With by_priority on the CPU, new values may arrive after complete(): waits for all of them.
  void settle();
  // While the object lives, operations of this thread wait for the parameters that they use; null
  // if all values have arrived. announce(), settle() and complete() report errors.
  std::unique_ptr<FirstUse> await_use();

  // Sets the order of parameters in buckets to that of a checkpoint, so that state that is read
  // from it keeps its place. Empty: keeps the current order. No effect after an update has settled
  // the order. Collective.
  void use_order(const std::vector<std::size_t>& order);
  const std::vector<std::size_t>& order() const { return order_; }
  // Time spent on copying gradients.
  Duration copying() const { return copying_; }

 private:
  void place_views();
  void arrived(std::size_t parameter);
  void collect(std::size_t parameter);
  void settle_order();

  Communicator& world_;
  const std::vector<NamedTensor> parameters_;
  std::unique_ptr<exchange::GroupUpdate> update_;
  std::vector<at::Tensor> value_views_;
  std::vector<at::Tensor> gradient_views_;
  std::unique_ptr<GradientHooks> hooks_;
  std::vector<std::size_t>
      order_;  // the order in which gradients became ready in the first step; fixed from then on
  std::vector<bool> is_collected_;  // by parameter: its gradient is in the bucket
  std::vector<bool> is_told_;       // by parameter: its gradient was announced to the other ranks
  bool order_is_settled_ = false;
  bool announced_ = false;
  Duration copying_{};
};

}  // namespace tally::adapter
