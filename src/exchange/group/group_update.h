#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "codec/choose.h"
#include "codec/encoder/encoder.h"
#include "exchange/exchange.h"
#include "exchange/group/bucket_accumulator.h"
#include "exchange/group/leftovers.h"
#include "exchange/group/slice.h"
#include "exchange/group/tiers.h"
#include "exchange/lane/codec_state.h"
#include "exchange/lane/lane_pipeline.h"
#include "exchange/memory/model_memory.h"
#include "exchange/memory/parameter_layout.h"
#include "plan/codec_spec.h"
#include "tally/communicator.h"
#include "tally/optimizer.h"

namespace tally::exchange {

class AutoCodec;

struct UpdateTotals {
  double samples = 0;        // of all ranks
  bool updated = false;      // false: no rank had a sample, or the gradient was discarded
  std::vector<double> sums;  // over all ranks, of the `sums` passed to complete()
};

// Time that this rank has spent since construction.
struct UpdateTimes {
  Duration update{};  // summing gradients and updating parameters
  Duration wait{};    // for other ranks
};

// One model on all ranks, which update it together. Every rank sums its slice of each bucket,
// applies the optimizer to it and keeps the optimizer state for it. On one host a rank reads the
// neighbours' gradients and writes the parameters, which exist once per host; nothing is sent.
// Across hosts, the sums and new values of a slice travel over its lane. On one host the result has
// the same bits as on one rank that sums and updates everything; across hosts all ranks have the
// same bits, but sums are rounded in another order.
//
// With a codec, each host encodes the mean of its gradients for the lane, and the mean of all hosts
// is encoded for the way back. Every host then has the same average, applies the optimizer to all
// of it and keeps all state; no values are sent. If all ranks are on one host, each rank acts as a
// host of its own, so that one machine shows the behaviour of many. Residuals belong to parameters
// and hosts (codec_state.h); reorder(), which is only called before the first step, discards them.
// With codec=auto and several hosts, gradients first travel uncompressed, then with a few
// assignments of codecs as a trial, and then with the fastest of these (auto_codec.h). On a single
// host auto means none.
//
//   begin -> ready ... ready -> complete        the same steps on all ranks
//
// ready() works on buckets that are complete on all neighbours, while the caller computes the other
// gradients. New values are written beside the present ones; complete() commits them on all ranks
// together. A rank that has a replica of its own, with all state, needs no second generation: once
// all ranks have all averages, no rank needs another one to complete the update, and each of them
// applies it in place. After an error the present values are whole, and so is the optimizer state;
// only the state of codecs may include the failed step. Threads: calls must not overlap.
class GroupUpdate final {
 public:
  struct Options {
    std::vector<ParameterInfo> parameters;
    std::vector<OptimizerSpec> optimizers;  // by group; all of one kind
    std::size_t bucket_bytes = 0;           // 0: kDefaultBucketBytes
    std::optional<double> clip_value;       // applied before clip_norm
    std::optional<double> clip_norm;
    // Whether an update whose gradient is not finite is discarded (loss scaling).
    bool discards_nonfinite = false;
    // The codec for gradients between hosts.
    plan::CodecSpec codec;
    // auto: the cost of the network between hosts, if known; otherwise it is measured.
    std::optional<codec::WireCost> wire;
    // auto: whether to try the promising assignments before the choice; otherwise the best
    // prediction is chosen.
    bool tries_codecs = true;
    // Called on every rank with the choice of auto.
    std::function<void(const std::string& sentence)> on_event;
    // Called for each bucket of a step, with the times at which its last gradient was ready on this
    // rank and this rank had done its part of the update. The thread may be another one.
    // DeviceExchange, whose host does not wait for buckets, never calls it.
    std::function<void(std::size_t bucket, TimePoint ready, TimePoint done)> on_bucket;
    std::uint64_t seed = 1;  // of random choices in codecs
    // Of the deadlines for setup; null: the steady clock. A simulation lends its own.
    const Clock* clock = nullptr;
    // kPerRank: every rank has all values and all optimizer state, in ordinary memory.
    Replicas replicas = Replicas::kPerHost;
    // False: updates happen in place, while gradients arrive. That saves one copy of values and
    // optimizer state per host, but after an error the values are undefined.
    bool beside = true;
    // Whether ranks compute while updates are made (backup:B): they need two generations.
    bool in_background = false;
    std::vector<codec::SenderFacts> senders;  // by group, from split_groups(), or empty
    // Further settings that must be equal on all ranks; compared as text by make().
    std::vector<std::string> settings;
  };
  static constexpr std::size_t kDefaultBucketBytes = std::size_t{1} << 20;

  // Called by all ranks. kMismatch if their parameters or settings differ. Buckets are in the
  // reverse order of `parameters`.
  static Result<std::unique_ptr<GroupUpdate>> make(Communicator& world, const Options& options,
                                                   Deadline by);
  // Waits for operations on lanes: they use the slices' memory.
  ~GroupUpdate();
  GroupUpdate(const GroupUpdate&) = delete;
  GroupUpdate& operator=(const GroupUpdate&) = delete;

  const std::vector<ParameterInfo>& parameters() const { return options_.parameters; }
  std::size_t groups() const { return options_.optimizers.size(); }
  // Memory of one parameter. All neighbours share the values; the gradient belongs to this rank.
  // reorder() moves both, and complete() the values.
  std::span<std::byte> values(std::size_t parameter) const { return values(parameter, present()); }
  std::span<std::byte> values(std::size_t parameter, int generation) const;
  int present() const { return memory_->present(); }  // the generation of the present version
  std::span<std::byte> gradient(std::size_t parameter) const;
  std::size_t buckets() const { return buckets_.size(); }
  // Whether this rank writes values outside updates: the first rank of each host does.
  bool writes_values() const { return tiers_.local == 0; }

  // Ends the lanes with an error, on the other ranks as well. A rank whose setup fails calls this:
  // ranks of its lane that have come further wait for it, and a lane without the lost rank does not
  // notice the loss. Not collective.
  void abort(const Error& why);

  // Copies the values of rank 0 to all ranks. Called by all ranks.
  Result<void> spread_values(Deadline by);
  // Takes over values that each rank with writes_values() has written. Called by all ranks.
  Result<void> adopt_values(Deadline by);

  // Rebuilds the buckets in rank 0's order of parameters, and sets `order` to it. Values and
  // gradients are kept, state is not. Must precede the end of the first step. Called by all ranks;
  // returns false if the order did not change.
  Result<bool> reorder(std::vector<std::size_t>& order, Deadline by);

  // The learning rates of the coming step, by group. Call before begin() or complete().
  void set_rates(std::vector<double> rates) { rates_ = std::move(rates); }
  // Announces the weight of the gradients that ready() will report. Optional: without begin(),
  // complete() does all the work.
  Result<void> begin(const StepContribution& contribution);
  // The gradient of a parameter is complete. It is in gradient(parameter), or stays at `elsewhere`
  // until complete() has returned: in any memory if this rank is alone_on_host(), otherwise in
  // gradient() of any parameter or in memory from add_gradients().
  Result<void> ready(std::size_t parameter, const std::byte* elsewhere = nullptr);
  bool alone_on_host() const { return tiers_.locals() == 1; }
  Result<std::span<std::byte>> add_gradients(std::size_t bytes) {
    return memory_->add_gradients(*memory_factory_, bytes);
  }
  std::shared_ptr<const void> gradient_owner() const { return memory_->gradient_owner(); }
  // Forgets a step that was begun on some ranks and will not be completed on any. Called by all
  // ranks. kInvalid if gradients of it have been sent.
  Result<void> discard_step();
  // Called by all ranks. Parameters that were not ready() on this rank count as zero. Parameters
  // that were not ready() on any rank stay unchanged. `sums` is summed over all ranks.
  Result<UpdateTotals> complete(const StepContribution& contribution, std::span<const double> sums);

  // This rank's part of the model and of its optimizer state. Available after the first step or
  // make_state().
  Result<std::vector<SliceState>> states();
  // The same, but without the parts that other hosts save: all ranks' states together are the
  // model, once.
  Result<std::vector<SliceState>> saved_states();
  // The codec state of this rank, and its place among the senders. Call between steps. auto: empty.
  Result<std::vector<CodecState>> codec_states();
  Sender sender() const { return {.number = tiers_.host, .of = tiers_.hosts}; }
  // Called by all ranks.
  Result<void> make_state();
  // Continues the model of `from`, whose communicator has lost ranks, on this object's: values,
  // optimizer state, codec state and counts. The update that was under way counts if any rank of
  // this communicator has committed it. Call before the first step, after `reorder` with the order
  // of `from`. Called by all ranks. kPeerLost if a lost host had optimizer state that no other host
  // has.
  Result<void> take_over(GroupUpdate& from, Deadline by);
  // By parameter: the number of its updates.
  std::vector<std::uint64_t>& steps() { return steps_; }
  const std::vector<std::uint64_t>& steps() const { return steps_; }
  // Updates before the coming step; random choices in codecs depend on it.
  void set_updates(std::uint64_t updates) { updates_ = updates; }
  std::uint64_t updates() const { return updates_; }
  UpdateTimes times() const { return times_; }
  TimePoint now() const { return options_.clock != nullptr ? options_.clock->now() : steady_now(); }
  // That this rank has allocated, without codecs.
  std::size_t memory_bytes() const;
  // The optimizer state and master copies of this rank, of one version; also before they are made.
  std::size_t state_bytes() const;

 private:
  // How gradients travel between hosts.
  enum class Across : std::uint8_t {
    kNowhere,   // there is one host
    kParts,     // each host gets the sum of its part, updates it, and sends the new values
    kAverages,  // each host gets the average of everything, and updates it all
  };
  // The work of a step on one bucket.
  struct Bucket {
    Range local;  // the part of its host's gradients that this rank sums
    Range own;    // the subrange of `local` that it updates, or with kAverages saves
    std::vector<std::size_t> counts;  // of `local`, by host
    std::unique_ptr<BucketAccumulator> gradients;
    std::unique_ptr<Slice> slice;
    std::vector<std::byte> lane_sum;  // kParts: the sum of `local` over the host
    Delivery published;               // kParts: the new values
    TimePoint ready_at{};             // zero: not yet in this step
    std::size_t first_cell = 0;
  };

  GroupUpdate(Communicator& world, Options options, Tiers tiers);

  // Setup.
  Layout layout_of(std::span<const std::size_t> order) const;
  std::span<std::byte> bytes_of(std::size_t parameter, std::byte* bucket) const;
  Result<void> use(Layout layout, Deadline by);
  void make_buckets();
  Result<void> move_to(Layout layout, const ModelMemory& from, Deadline by);
  void plan_ranges(std::size_t bucket);
  Range local_range(std::size_t bucket, int neighbour) const;
  Range range_of_host(Range local, int host) const;
  Slice::Options slice_options(std::size_t bucket, int neighbour) const;
  Result<void> make_slices();
  void make_pipeline();

  // One step.
  bool needs_norm() const;
  bool is_deferred() const;
  UpdateFacts facts() const;
  void close(std::size_t bucket);
  void note_done(std::size_t bucket);
  Result<void> advance(bool totals_known);
  void work_on(std::size_t bucket, bool totals_known);
  void send(std::size_t bucket, double samples, bool totals_known);
  Result<UpdateTotals> complete_step(const StepContribution& contribution,
                                     std::span<const double> sums);
  Result<UpdateTotals> agree(const StepContribution& contribution, std::span<const double> sums);
  Result<void> await_average(std::size_t bucket);
  Result<double> gradient_squares();
  Result<bool> clip();
  Result<std::vector<Squares>> squares_of_parameters();
  Result<std::vector<Squares>> all_cells();
  Result<bool> update_deferred();
  Result<bool> apply();
  Result<void> update_bucket(std::size_t bucket);
  void publish(std::size_t bucket);
  Result<void> commit(bool updated);
  void end_step();

  // Taking over from another GroupUpdate.
  Result<void> agree_on_version(Communicator& world);
  std::vector<SliceState> states_of_host() const;
  Result<void> take_states(const GroupUpdate& from);

  // codec=auto.
  Result<void> choose_codecs();
  Result<void> measure_codecs();
  Result<void> use_codecs(std::vector<plan::CodecSpec> codecs, bool for_good);
  Result<void> leave_averages();

  Communicator& world_;
  const Options options_;
  Tiers tiers_;
  const bool layerwise_;
  Across across_ = Across::kNowhere;
  bool agrees_first_ = false;  // updates are in place, once all ranks have all averages
  std::unique_ptr<MemoryFactory> memory_factory_;
  std::vector<codec::SenderFacts> senders_;
  std::unique_ptr<ModelMemory> memory_;
  std::unique_ptr<ModelMemory> former_;  // before reorder(), until all ranks have left it
  std::vector<Bucket> buckets_;
  std::vector<double> rates_;
  std::vector<std::uint64_t> steps_;  // by parameter
  std::vector<std::uint8_t> used_;    // by parameter, in this step on any rank
  const std::vector<std::uint8_t> all_used_;
  std::uint64_t step_ = 1;
  std::uint64_t updates_ = 0;
  std::size_t next_ = 0;  // the first bucket without work in this step
  bool begun_ = false;
  bool has_averages_ = false;           // of all buckets in this step
  std::vector<double> averages_rates_;  // the learning rates of these averages
  double total_samples_ = 0;
  std::size_t cells_ = 0;
  std::vector<double> statistics_;
  UpdateTimes times_;
  std::vector<plan::CodecSpec> codecs_;     // by bucket, after auto has measured
  Leftovers leftovers_;                     // of codecs that auto has tried
  std::unique_ptr<AutoCodec> auto_;         // until the choice is final
  std::unique_ptr<Lane> publishing_;        // kParts: carries new values
  std::unique_ptr<LanePipeline> pipeline_;  // unless kNowhere; uses all members above
};

// kMismatch if the parameters or settings of ranks differ. Called by all ranks.
Result<void> check_same_models(Communicator& world, const GroupUpdate::Options& options,
                               Deadline by);

}  // namespace tally::exchange
