#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "adapters/torch/first_use.h"
#include "adapters/torch/gradient_hooks.h"
#include "adapters/torch/tensors.h"
#include "tally/job.h"
#include "train/sharded_update.h"

namespace tally::adapter {

// The trained parameters of a module, moved into the memory of a ShardedUpdate: on the CPU each
// parameter and, once backward has been there, its gradient is a view of that memory. Parameters on
// another device stay there; gradients are copied to the host and new values back.
class BucketedModule final {
 public:
  // Collective. Values are this rank's until spread_values().
  BucketedModule(Communicator& world, std::vector<NamedTensor> parameters,
                 const train::ShardedUpdate::Options& options);
  // The parameters get memory of their own again.
  ~BucketedModule();
  BucketedModule(const BucketedModule&) = delete;
  BucketedModule& operator=(const BucketedModule&) = delete;

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  train::ShardedUpdate& update() { return *update_; }
  const train::ShardedUpdate& update() const { return *update_; }

  // Rank 0's values become everybody's. Collective.
  void spread_values();
  // What lies in memory for values becomes the parameters', on other devices too. Collective.
  void adopt_values();
  // Gradients are gone: the next backward begins afresh.
  void forget_gradients();

  // The coming backward is the last before complete(), with gradients of this weight: what becomes
  // complete may be worked on at once. Without it gradients are only collected.
  void announce(const train::StepContribution& contribution);
  // Whether the others count on what was announced: there is no way back.
  bool is_announced() const { return announced_; }
  // Moves what lies elsewhere into the bucket, for whoever completes the update in another way: the
  // parameters that have a gradient.
  std::vector<std::size_t> gather();
  // Values that others have changed become those of parameters on other devices.
  void values_to_devices();
  // Collective.
  train::StepTotals complete(const train::StepContribution& contribution,
                             std::span<const double> sums);

  // By priority new values may come after complete(), on the CPU: until they are all there.
  void settle();
  // While it lives, operations of this thread wait for the parameters that they use; null if all
  // are there. What goes wrong is told by announce(), settle() and complete().
  std::unique_ptr<FirstUse> await_use();

  // Buckets by this order of parameters, as a checkpoint had it, from now on: state that is read
  // from there stays where it is. Empty: the order they have. Not if an update has settled it
  // already. Collective.
  void use_order(const std::vector<std::size_t>& order);
  const std::vector<std::size_t>& order() const { return order_; }
  // Time spent with moving gradients.
  Duration copying() const { return copying_; }

 private:
  void place_views();
  void arrived(std::size_t parameter);
  void collect(std::size_t parameter);
  void settle_order();

  Communicator& world_;
  const std::vector<NamedTensor> parameters_;
  std::unique_ptr<train::ShardedUpdate> update_;
  std::vector<at::Tensor> value_views_;
  std::vector<at::Tensor> gradient_views_;
  std::unique_ptr<GradientHooks> hooks_;
  std::vector<std::size_t>
      order_;  // in which gradients became ready in the first step, then for good
  std::vector<bool> is_collected_;  // by parameter: its gradient is in the bucket
  std::vector<bool> is_told_;       // by parameter: its gradient was announced to the others
  bool order_is_settled_ = false;
  bool announced_ = false;
  Duration copying_{};
};

}  // namespace tally::adapter
