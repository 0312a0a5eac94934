#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exchange/lane/codec_state.h"
#include "exchange/memory/parameter_layout.h"
#include "policy/staleness.h"
#include "tally/checkpoint.h"
#include "tally/communicator.h"
#include "tally/optimizer.h"

namespace tally::exchange {

// The part of a rank in the coming update.
struct StepChoice {
  bool computes = true;       // false: it must not compute a gradient (subset:K)
  std::uint64_t version = 0;  // of the values that it computes at
};

// This rank's part of an update.
struct StepContribution {
  double samples = 0;  // behind its gradients; 0: its gradients are not read
  double weight = 0;   // factor of the gradients: `samples` for means, 1 for sums
  double loss_sum = 0;
  std::vector<double> rates = {};  // learning rates, by group of parameters
};

// The outcome of an update.
struct StepTotals {
  // Behind the update, as far as this rank knows: of all ranks, or its own.
  double samples = 0;
  double loss_sum = 0;
  // False: no rank had a sample, or the gradient was discarded.
  bool updated = false;
  // The gradient was not finite and counts nowhere: that of all ranks, or this rank's own.
  bool discarded = false;
};

class Background;
class CheckpointState;
class GradientMemory;
class Meetings;
struct Statistics;

// One way in which ranks update the parameters of a model together. The plan decides which one:
// among the ranks of a group (GroupExchange), or on parameter servers (ServerExchange). A trainer
// needs only this interface:
//
//   begin -> (gradients) -> announce -> ready ... ready -> complete        one update
//
// An update reads version v and writes version v + 1 beside it. complete() commits: from then on
// values() is version v + 1. If a call returns an error before that, version v is whole and
// unchanged. Threads: calls must not overlap. No call throws.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // Call before the first forward pass of an update.
  virtual Result<StepChoice> begin() = 0;
  // The coming gradients are the last ones of the update: ready() may use each of them at once.
  // Without announce() ready() only notes that there is a gradient. Returns whether other ranks
  // rely on the announced gradients: the update must then be completed.
  virtual Result<bool> announce(const StepContribution& contribution) = 0;
  // The gradient of a parameter has its final value for this update. It is in gradient(parameter),
  // or stays at `elsewhere` until complete() has returned. That needs reads_elsewhere(), or
  // gradient_memory() and an address in it.
  virtual Result<void> ready(std::size_t parameter, const std::byte* elsewhere = nullptr) = 0;
  virtual bool reads_elsewhere() const { return false; }
  // Whether values(), and the gradients of ready(), are addresses of a device.
  virtual bool on_device() const { return false; }
  // A parameter that was not ready() on this rank has no gradient here.
  virtual Result<StepTotals> complete(const StepContribution& contribution) = 0;
  // This rank has no more data, except for `rest`: takes part in updates until all ranks have
  // called drain(). An exchange may drop `rest` (backup:B, subset:K).
  virtual Result<void> drain(const StepContribution& rest) = 0;
  // The job has other members: continues from the last committed version on `replicas`, which must
  // outlive the exchange or its use until the next reform(). Called by all ranks of `replicas`. The
  // memory of the old members is kept until the next update. After an error, reform() may be called
  // again.
  virtual Result<void> reform(Communicator& replicas) = 0;

  // Updates that this rank knows of; without rounds each gradient counts 1/N.
  virtual std::uint64_t steps() const = 0;

  // The type of a parameter's values and gradients in this exchange.
  virtual DataType type(std::size_t parameter) const = 0;
  // The present version of the values. Every call but ready() may move them to other memory;
  // reform() always does.
  virtual std::span<std::byte> values(std::size_t parameter) const = 0;
  // Where this rank writes its gradient, between begin() and complete(). It moves like the values.
  virtual std::span<std::byte> gradient(std::size_t parameter) = 0;

  // Not null if a gradient may also lie in gradient() of another parameter, or in added memory.
  virtual GradientMemory* gradient_memory() { return nullptr; }

  // Not null if updates happen while this rank computes (backup:B).
  virtual Background* background() { return nullptr; }
  virtual Meetings& meetings() = 0;
  virtual CheckpointState& checkpoint() = 0;
  virtual Statistics statistics() const = 0;
};

// The memory behind gradient() of all parameters. A backward pass can write its gradients there
// itself, in any order.
class GradientMemory {
 public:
  virtual ~GradientMemory() = default;
  // Keeps the memory alive, also after the exchange. A different owner than before means that the
  // memory of gradients has moved.
  virtual std::shared_ptr<const void> owner() const = 0;
  // More memory, for gradients of parameters whose own memory is in use.
  virtual Result<std::span<std::byte>> add(std::size_t bytes) = 0;
};

// The updates of other ranks that this rank takes part in while it computes. A thread of the driver
// calls serve(), or a simulation calls serve_once() from time to time.
class Background {
 public:
  virtual ~Background() = default;
  // Takes part in an update if one is due. Returns whether one was.
  virtual Result<bool> serve_once() = 0;
  // Takes part in all updates. Returns after stop() or an error.
  virtual Result<void> serve() = 0;
  virtual void stop() = 0;  // from any thread
};

// Agreements of all ranks that are still in the job, beside updates. Collective.
class Meetings {
 public:
  virtual ~Meetings() = default;

  // Whether all ranks make their steps together.
  virtual bool in_step() const = 0;
  // Whether this is the lowest rank that is still in the job.
  virtual bool is_first() const = 0;
  // Replaces the values by their sums over all ranks.
  virtual Result<void> sum(std::span<double> values) = 0;
  // Copies the bytes of the first rank to all ranks.
  virtual Result<void> broadcast(std::span<std::byte> bytes) = 0;
  // sum() between updates. Afterwards steps() is the maximum of all ranks, and the values are the
  // newest.
  virtual Result<void> meet(std::span<double> values) = 0;
  // Whether this rank comes to the meeting after update `step` now.
  virtual bool is_due(std::uint64_t step) = 0;
};

// A run of elements of one parameter, with its optimizer state.
struct SliceState {
  std::size_t parameter = 0;
  std::size_t first = 0;        // element of the parameter
  std::span<std::byte> values;  // of the bucket's type
  // By array of the optimizer, then the master copy if there is one.
  std::vector<std::span<std::byte>> state = {};
};

// The progress of an exchange in a checkpoint.
struct SavedCourse {
  std::uint64_t steps = 0;
  std::vector<std::size_t> order = {};              // of parameters in buckets
  std::vector<std::uint64_t> parameter_steps = {};  // by parameter: its updates
  std::string snapshot = {};  // folder with the rows on servers, which the checkpoint does not have
};

// The part of a checkpoint that an exchange saves and restores. Collective.
class CheckpointState {
 public:
  virtual ~CheckpointState() = default;

  // This rank's part of the values and optimizer state, in memory that is valid until the next
  // call.
  virtual Result<std::vector<SliceState>> states() = 0;
  // The bytes of states(), if a device still copies them; null: they are complete.
  virtual std::shared_ptr<const checkpoint::PendingBytes> pending() const { return nullptr; }
  // The codec state: the tensors of all ranks, and this rank's part of them, as states().
  virtual std::vector<CodecTensor> codec_tensors() const = 0;
  virtual Result<std::vector<CodecState>> codec_states() = 0;
  virtual Sender sender() const = 0;  // the number of this rank among the senders
  virtual SavedCourse course() const = 0;
  // The number of updates, as codecs count them, after a restore of `course`.
  virtual std::uint64_t updates_of(const SavedCourse& course) const = 0;
  // Restores values, state and progress from a checkpoint that fits.
  virtual Result<void> restore(const checkpoint::Reader& reader, const SavedCourse& course) = 0;
};

struct Statistics {
  // Time that this rank has spent since construction.
  Duration update{};  // summing gradients and updating parameters
  Duration wait{};    // for other ranks
  // The staleness of this rank's applied gradients, and the number of dropped ones.
  policy::Histogram staleness = {};
  std::uint64_t dropped = 0;
  // Memory that this rank has allocated: its gradients, its optimizer state, sums that travel, and
  // the values if it is the first rank of its host.
  std::size_t memory_bytes = 0;
  std::size_t state_bytes = 0;  // of it, one generation of optimizer state and master copies
};

}  // namespace tally::exchange
