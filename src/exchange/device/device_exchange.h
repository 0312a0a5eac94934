#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exchange/device/device.h"
#include "exchange/device/device_gather.h"
#include "exchange/device/device_model.h"
#include "exchange/device/device_sum.h"
#include "exchange/device/encoded_buckets.h"
#include "exchange/exchange.h"
#include "exchange/group/group_update.h"
#include "optimizer/update_rule.h"

namespace tally::exchange {

// home=group update=bsp on devices: each rank has a replica of the model in the memory of its
// device, and values() and the gradients given to ready() are addresses there. A single rank reads
// its gradients where backward has put them. Several ranks gather each complete bucket into one
// array, and a DeviceSum adds the arrays of all ranks while backward computes the others. With a
// codec EncodedBuckets makes the average of all ranks instead.
//
// There is one generation of values. All ranks wait until everyone has the sums of all buckets;
// before that a step is discarded, and after it each rank updates its own replica in place. A rank
// that is lost in between leaves some ranks an update behind; reform() gives them the model of a
// rank that has made the update. The residuals of a codec may include a step that was discarded.
//
// With Options::shards_state a rank keeps optimizer state and master copies for its range of each
// bucket only. It updates that range, and a DeviceGather sends its new values to the other ranks.
// Sums still arrive as a whole on every rank, so this costs one extra all-gather per step, about
// 1.5 times the traffic of replicated state; the results have the same bits. The state of a rank is
// lost with it: reform() refuses, and an error while values travel leaves them undefined.
//
// An error of a device, or of memory that a rank cannot allocate, ends the exchange on all ranks:
// the rank aborts the communicator, so that the others fail at once with its number.
class DeviceExchange final : public Exchange, private Meetings, private CheckpointState {
 public:
  struct Options {
    GroupUpdate::Options update;  // device_fit()
    std::shared_ptr<Device> device;
    // Not called for a single rank.
    MakeDeviceSum make_sum;
    MakeDeviceGather make_gather = host_gather_maker();
    bool shards_state = false;
    // Writes the initial values of a parameter. Called on rank 0.
    std::function<void(std::size_t parameter, std::span<std::byte> values)> initial;
  };
  static constexpr std::size_t kDefaultBucketBytes = std::size_t{16} << 20;

  // Called by all ranks, which get the initial values of rank 0. `replicas` must outlive the
  // exchange.
  static Result<std::unique_ptr<DeviceExchange>> make(Communicator& replicas, Options options,
                                                      Deadline by);

  Result<StepChoice> begin() override { return StepChoice{.computes = true, .version = updates_}; }
  Result<bool> announce(const StepContribution& contribution) override;
  Result<void> ready(std::size_t parameter, const std::byte* elsewhere) override;
  bool reads_elsewhere() const override { return true; }
  bool on_device() const override { return true; }
  Result<StepTotals> complete(const StepContribution& contribution) override;
  Result<void> drain(const StepContribution& rest) override;
  Result<void> reform(Communicator& replicas) override;
  std::uint64_t steps() const override { return updates_; }
  DataType type(std::size_t parameter) const override { return parameters()[parameter].type; }
  std::span<std::byte> values(std::size_t parameter) const override {
    return model_->values(parameter);
  }
  // A gradient stays where it is.
  std::span<std::byte> gradient(std::size_t /*parameter*/) override { return {}; }
  Meetings& meetings() override { return *this; }
  CheckpointState& checkpoint() override { return *this; }
  Statistics statistics() const override;

 private:
  DeviceExchange(Communicator& replicas, Options options);

  const std::vector<ParameterInfo>& parameters() const { return options_.update.parameters; }
  const OptimizerSpec& spec_of(std::size_t parameter) const;
  // In the step under way.
  bool encodes(std::size_t b) const { return encoding_ && encoding_->encodes(b, updates_); }
  bool is_sharded() const { return model_->share().parts > 1; }
  bool is_lamb() const { return options_.update.optimizers.front().kind == OptimizerKind::kLamb; }
  Deadline after(Duration timeout) const;
  void fail(const Error& error);
  template <typename T>
  Result<T> ending(Result<T> result);

  Result<void> set_up(Deadline by);
  Result<void> use_order(std::vector<std::size_t> order);
  Result<void> connect(Deadline by);
  Result<void> make_sums(Deadline by);
  Result<void> spread_values(Deadline by);

  // One step.
  Result<void> take_gradient(std::size_t parameter, const std::byte* place);
  Result<void> start_bucket(std::size_t b, const std::vector<std::uint8_t>& used);
  Result<void> start_rest(const std::vector<std::uint8_t>& used);
  Result<std::optional<StepTotals>> agree(const StepContribution& contribution, bool draining,
                                          double& drained);
  Result<StepTotals> complete_step(const StepContribution& contribution, bool draining,
                                   double* drained);
  Result<void> await_averages();
  Result<void> drain_steps(const StepContribution& rest);
  void end_step();

  // An update (device_update.cc).
  DeviceBucket bucket(DeviceBucket of_model, std::size_t b) const;
  GradientChange change_of(std::size_t b, GradientChange change) const;
  Result<bool> apply(double samples);
  Result<void> copy_totals();
  Result<bool> clip(GradientChange& change);
  Result<double> gradient_squares(const GradientChange& change);
  Result<std::vector<Squares>> all_squares(const GradientChange& change);
  Result<void> update_layerwise(const GradientChange& change);
  Result<void> update_loops(const GradientChange& change,
                            const std::vector<Squares>& of_parameters);
  Result<void> post_pieces();
  DevicePiece piece_of(std::size_t b, const BucketLayout::Entry& entry) const;
  optimizer::StepFacts facts_of(std::size_t parameter) const;
  Result<void> send_values(std::size_t b);
  Result<void> take_values();

  bool in_step() const override { return true; }
  bool is_first() const override { return replicas_->rank() == 0; }
  Result<void> sum(std::span<double> values) override;
  Result<void> broadcast(std::span<std::byte> bytes) override;
  Result<void> meet(std::span<double> values) override { return sum(values); }
  bool is_due(std::uint64_t step) override { return updates_ >= step; }

  Result<std::vector<SliceState>> states() override;
  std::shared_ptr<const checkpoint::PendingBytes> pending() const override { return saved_.bytes; }
  std::vector<CodecTensor> codec_tensors() const override;
  Result<std::vector<CodecState>> codec_states() override;
  Sender sender() const override { return {.number = replicas_->rank(), .of = replicas_->size()}; }
  SavedCourse course() const override;
  std::uint64_t updates_of(const SavedCourse& course) const override { return course.steps; }
  Result<void> restore(const checkpoint::Reader& reader, const SavedCourse& course) override;
  Result<void> discard_step();
  Result<void> restore_from(const checkpoint::Reader& reader, const SavedCourse& course);
  Result<void> reform_on(Communicator& replicas);
  Result<void> copy_model(Communicator& replicas, Rank root, Deadline by);

  Communicator* replicas_;
  Options options_;
  const bool layerwise_;
  std::vector<UpdateLoop> loops_;   // of all groups of parameters, each once
  std::vector<std::size_t> order_;  // of parameters in buckets
  std::unique_ptr<DeviceModel> model_;
  std::unique_ptr<DeviceSum> sum_;            // null: there is nothing to sum
  std::vector<std::size_t> sum_array_;        // of sum_, by bucket that is not encoded in all steps
  std::unique_ptr<EncodedBuckets> encoding_;  // null: no codec
  std::unique_ptr<DeviceGather> new_values_;  // with sharded state, by bucket
  DeviceMemory piece_table_;                  // of all buckets
  std::vector<DeviceMemory> directions_;      // as sum_: of lamb, with the total before
  DeviceMemory squares_;                      // by cell
  std::vector<std::size_t> first_piece_;      // by bucket
  std::vector<DevicePiece> pieces_;           // of all buckets, as on the device
  DeviceModel::PendingPart saved_;
  EncodedBuckets::HostState saved_codec_;

  // The step under way.
  std::vector<const std::byte*> places_;  // by parameter: its gradient on this rank, or null
  std::vector<std::size_t> missing_;      // by bucket: parameters without a gradient
  std::size_t started_ = 0;               // buckets whose sums are started
  bool is_announced_ = false;
  double weight_ = 0;
  double samples_ = 0;
  std::vector<double> all_samples_;  // by rank
  std::vector<double> rates_;        // by group
  std::vector<double> factors_;      // by bucket: turn the gradient that kernels read into the mean
  std::vector<std::uint8_t> used_;   // by parameter: whether any rank has a gradient

  const std::vector<std::uint8_t> all_used_;
  std::vector<std::uint64_t> steps_;  // by parameter: its updates
  std::uint64_t updates_ = 0;
  std::optional<Error> failure_;
  Duration updating_{};
  Duration waiting_{};
  policy::Histogram staleness_;
};

template <typename T>
Result<T> DeviceExchange::ending(Result<T> result) {
  if (!result.has_value()) fail(result.error());
  return result;
}

}  // namespace tally::exchange
