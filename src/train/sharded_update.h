#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "codec/choose.h"
#include "codec/encoder/encoder.h"
#include "plan/codec_spec.h"
#include "tally/communicator.h"
#include "tally/optimizer.h"
#include "train/codec_state.h"
#include "train/lane_exchange.h"
#include "train/model_memory.h"
#include "train/parameter_layout.h"
#include "train/slice.h"
#include "train/tiers.h"

namespace tally::train {

class AutoCodec;

// What this rank brings to a step.
struct StepContribution {
  double samples = 0;  // behind its gradients; 0: it has none, and what lies there is not read
  double weight = 0;   // what they are multiplied with: `samples` for means, 1 for sums
};

struct StepTotals {
  double samples = 0;        // of all ranks; 0: nothing was updated
  std::vector<double> sums;  // of what each rank gave along
};

// Time that this rank has spent since it was made.
struct StepTimes {
  Duration update{};  // summing gradients and updating parameters
  Duration wait{};    // for other ranks
};

// One model on all ranks, updated by all of them together: every rank sums its slice of each
// bucket, applies the optimizer to it and keeps the optimizer's state for it. On one host it reads
// the neighbours' gradients and writes the parameters, which are there once for all; nothing is
// sent. Across hosts, sums and new values of a slice travel over its lane. The same ranks and
// gradients give the same bits as one rank that sums and updates everything.
//
// With a codec the mean of a host's gradients is encoded on its way over the lane, and so is the
// mean of all on its way back: every host then has the same average, applies the optimizer to all
// of it and keeps all state; no values are sent. The ranks of a job on a single host act as if each
// had one of its own, so that one machine shows what many would do. What codecs leave out belongs
// to parameters and hosts (codec_state.h); after reorder(), which only comes before the first step,
// there is none. With codec=auto gradients of several hosts first travel as they are, then in some
// ways that are tried, and after that in the one that was measured to be the fastest (auto_codec.h
// says when); on a single host it is none.
//
//   begin -> ready ... ready -> complete        the same steps on all ranks
//
// By priority complete() returns when all gradients are on their way. A parameter may be read after
// await(), all of them after settle(), which begin() and everything that reads values or state
// calls by itself. Results are those without it, bit for bit.
//
// Buckets that are complete on all neighbours are worked on inside ready(), while the caller goes
// on computing the other gradients. A parameter's values may change as soon as its bucket is
// complete everywhere. After an error the model is undefined. Threads: calls must not overlap.
class ShardedUpdate final {
 public:
  struct Options {
    std::vector<ParameterInfo> parameters;
    std::vector<OptimizerSpec> optimizers;  // by group; of one kind
    std::size_t bucket_bytes = 0;           // 0: kDefaultBucketBytes
    std::optional<double> clip_value;       // before clip_norm
    std::optional<double> clip_norm;
    // How gradients travel between hosts.
    plan::CodecSpec codec;
    // Between several hosts with one rank each, where nothing (clip_norm, layerwise optimizers)
    // needs all gradients at once: buckets that the next forward pass needs first travel first.
    // Else they travel as they come.
    bool by_priority = false;
    std::size_t bytes_in_flight = std::size_t{4} << 20;  // by_priority: at most so many at once
    // auto: what the way between hosts costs, if that is known; else it is measured.
    std::optional<codec::WireCost> wire;
    // auto: whether what promises to be fast is tried before there is a choice; else the best by
    // prediction is taken.
    bool tries_codecs = true;
    // Hears, on every rank, what auto has chosen, and why there is no priority where it was asked
    // for.
    std::function<void(const std::string& sentence)> on_event;
    std::uint64_t seed = 1;                   // of what codecs draw
    std::vector<codec::SenderFacts> senders;  // by group; as codec_groups.h makes them, or empty
    // What else must be the same on all ranks, as text.
    std::vector<std::string> settings;
  };
  static constexpr std::size_t kDefaultBucketBytes = std::size_t{1} << 20;

  // Called by all ranks. kMismatch if they have other parameters. Buckets are in the reverse order
  // of `parameters`.
  static Result<std::unique_ptr<ShardedUpdate>> make(Communicator& world, const Options& options,
                                                     Deadline by);
  // What has been started on lanes ends first: it uses the slices' memory.
  ~ShardedUpdate();
  ShardedUpdate(const ShardedUpdate&) = delete;
  ShardedUpdate& operator=(const ShardedUpdate&) = delete;

  const std::vector<ParameterInfo>& parameters() const { return options_.parameters; }
  std::size_t groups() const { return options_.optimizers.size(); }
  // Memory of one parameter; moved by reorder(). Values are those of all neighbours, the gradient
  // is this rank's.
  std::span<std::byte> values(std::size_t parameter) const;
  std::span<std::byte> gradient(std::size_t parameter) const;
  std::size_t buckets() const { return memory_->layout().buckets.size(); }
  // Whether this rank writes values that are no update: the first of its host does.
  bool writes_values() const { return tiers_.local == 0; }

  // Rank 0's values become everybody's. Called by all ranks.
  Result<void> spread_values(Deadline by);
  // After values were written by hand, on each rank that writes_values(). Called by all ranks.
  Result<void> adopt_values(Deadline by);

  // Builds the buckets anew in rank 0's order of parameters, which `order` becomes; values and
  // gradients move along, state does not. Before the first step is complete. Called by all ranks;
  // false if everything stayed where it was.
  Result<bool> reorder(std::vector<std::size_t>& order, Deadline by);

  // Of the coming step; by group, before begin() or complete().
  void set_rates(std::vector<double> rates) { rates_ = std::move(rates); }
  // The gradients that ready() is about to tell of weigh this much. Optional: without it all work
  // is left to complete().
  void begin(const StepContribution& contribution);
  Result<void> ready(std::size_t parameter);
  // Called by all ranks. Parameters that were not ready() here count as zero, and those that were
  // ready() nowhere are left as they are. `sums` is summed over all ranks on the way.
  Result<StepTotals> complete(const StepContribution& contribution, std::span<const double> sums);

  // Whether values may still be on their way after complete().
  bool is_late() const { return late_.left > 0; }
  bool is_late(std::size_t parameter) const;
  // Until a parameter, or all of them, have the values of the last update. An error is that of all
  // further steps, too.
  Result<void> await(std::size_t parameter);
  Result<void> settle();

  // What this rank keeps of the model and its optimizer; there after the first step, or
  // make_state().
  std::vector<SliceState> states();
  // The same, but of what several hosts keep only this one's share: all ranks' together are the
  // model, once.
  std::vector<SliceState> saved_states();
  // What codecs remember here, and who this rank is among senders. Between steps. auto: nothing
  // that is kept.
  std::vector<CodecState> codec_states();
  Sender sender() const { return {.number = tiers_.host, .of = tiers_.hosts}; }
  void make_state();
  // How often each parameter has been updated.
  std::vector<std::uint64_t>& steps() { return steps_; }
  const std::vector<std::uint64_t>& steps() const { return steps_; }
  // Updates before the coming step; what codecs draw depends on it.
  void set_updates(std::uint64_t updates) { updates_ = updates; }
  StepTimes times() const { return times_; }

 private:
  // One bucket's way through a step.
  struct Work {
    Range local;                      // what this rank sums of its host's gradients
    Range own;                        // what it updates, or with a codec saves: a part of that
    std::vector<std::size_t> counts;  // of `local`, by host
    std::vector<std::byte> lane_sum;  // of `local`, to be summed over the lane
    std::optional<Handle> summed;
    std::optional<Handle> gathered;
    std::unique_ptr<Slice> slice;
    std::size_t pending = 0;  // parameters that are not ready in this step
    std::size_t first_cell = 0;
  };

  // What the last update, which goes on, is made of.
  struct Late {
    std::vector<double> rates;
    std::vector<std::uint64_t> steps;  // by parameter, before it
    std::vector<bool> is_there;        // by bucket
    std::size_t left = 0;              // buckets
  };

  // What a codec that is no longer used has left out of a parameter: to be added to this host's
  // mean gradient.
  struct Leftover {
    std::size_t parameter = 0;
    std::size_t bucket = 0;
    std::size_t first = 0;  // element of the bucket
    std::vector<float> values;
  };

  ShardedUpdate(Communicator& world, Options options, Tiers tiers);
  bool can_be_late();
  Layout layout_of(std::span<const std::size_t> order) const;
  std::span<std::byte> bytes_of(std::size_t parameter, std::byte* bucket) const;
  Result<void> use(Layout layout, Deadline by);
  void plan_work();
  void plan_ranges(std::size_t bucket);
  std::unique_ptr<Slice> make_slice(std::size_t bucket);
  void make_exchange();
  Result<void> choose_codecs();
  Result<void> measure_codecs();
  Result<void> use_codecs(std::vector<plan::CodecSpec> codecs, bool for_good);
  void keep_leftovers();
  void add_leftovers(std::size_t bucket, double factor, bool totals_known,
                     std::span<std::byte> values);
  void leave_lanes();
  void begin_late();
  Result<void> finish_late(std::size_t bucket);
  bool is_deferred() const;
  bool complete_on_host(std::size_t bucket) const;
  void zero_unused();
  Result<void> advance(bool totals_known);
  Result<void> work_on(std::size_t bucket, double samples, bool totals_known);
  Result<void> sum_over_lane(std::size_t bucket, double samples, bool totals_known);
  Result<StepTotals> agree(const StepContribution& contribution, std::span<const double> sums);
  Result<void> await_sums();
  Result<void> await_average(std::size_t bucket);
  Result<void> clip();
  Result<std::vector<Squares>> squares_of_parameters();
  Result<std::vector<Squares>> all_cells();
  Result<void> update_deferred();
  Result<void> update_as_they_come();
  Result<void> update_bucket(std::size_t bucket, const UpdateFacts& facts);
  Result<void> send_values(std::size_t bucket);
  Result<void> finish_step();
  Result<void> timed_wait(Handle& handle);

  Communicator& world_;
  const Options options_;
  Tiers tiers_;
  const bool layerwise_;
  // Averages come back over lanes to all hosts, which update everything; else each updates its part
  // and sends values.
  bool encodes_;
  const bool can_be_late_;
  std::vector<codec::SenderFacts> senders_;
  std::unique_ptr<ModelMemory> memory_;
  std::vector<Work> works_;  // by bucket
  std::vector<double> rates_;
  std::vector<std::uint64_t> steps_;    // by parameter
  std::vector<std::uint8_t> is_ready_;  // by parameter, in this step on this rank
  std::vector<std::uint8_t> used_;      // by parameter, in this step on any rank
  const std::vector<std::uint8_t> all_used_;
  std::uint64_t step_ = 1;
  std::uint64_t updates_ = 0;
  std::size_t next_ = 0;  // the first bucket that has not been worked on in this step
  bool begun_ = false;
  double total_samples_ = 0;
  std::size_t cells_ = 0;
  std::vector<const void*> sources_;
  std::vector<double> weights_;
  std::vector<double> statistics_;
  StepTimes times_;
  Late late_;
  std::optional<Error> failure_;            // of what was late
  std::vector<plan::CodecSpec> codecs_;     // by bucket, once auto has measured
  std::vector<Leftover> leftovers_;         // of codecs that auto has tried
  std::unique_ptr<AutoCodec> auto_;         // until it has chosen
  std::unique_ptr<LaneExchange> exchange_;  // with encodes_; uses all of the above
};

}  // namespace tally::train
