#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "tally/checkpoint.h"
#include "tally/job.h"
#include "tally/optimizer.h"
#include "tally/rate_schedule.h"
#include "tally/server_options.h"

// Training of libtorch modules by all ranks of a job. This interface throws, as libtorch users
// expect: every error is a Failure that names the rank and the cause.
namespace tally {

class Failure : public std::runtime_error {
 public:
  explicit Failure(Error error) : std::runtime_error(to_string(error)), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// The training has diverged: it cannot go on from these parameters.
class Divergence : public Failure {
 public:
  using Failure::Failure;
};

// The value of a result; throws its error as a Failure.
template <typename T>
T or_throw(Result<T> result) {
  if (!result.has_value()) throw Failure(std::move(result).error());
  return std::move(result).value();
}
inline void or_throw(Result<void> result) {
  if (!result.has_value()) throw Failure(std::move(result).error());
}

// Job::join() that throws a Failure.
std::unique_ptr<Job> join();

// Parameters with their own optimizer settings. A parameter belongs to the first group that matches
// it; the trainer's optimizer has the rest. All optimizers must be of one kind.
struct ParameterGroup {
  std::function<bool(const std::string& name, const at::Tensor& parameter)> matches;
  OptimizerSpec optimizer;
};

// The device for this rank's module: a GPU if libtorch sees any, else the CPU. The ranks of a host
// are assigned its GPUs round-robin.
at::Device device_of(const Job& job);

// The ranks of a job as a Communicator over GPU memory: collectives of tensors on `device`, this
// rank's GPU, whose data NCCL moves. Each rank needs a GPU of its own. Operations follow the work
// of the stream that is current at this call. Called by all ranks; does not outlive the job.
// Failure kInvalid on the CPU, where Job::world() does the same, and in builds without NCCL.
std::unique_ptr<Communicator> device_world(Job& job, const at::Device& device);

// Disables weight decay, and the trust ratio of lamb and lars, for biases and normalisation: for
// all parameters with fewer than two dimensions.
ParameterGroup without_decay(OptimizerSpec optimizer);

// The treatment of buffers, such as batch-norm statistics, in synchronise_buffers(). Integer
// buffers become those of rank 0 with kAverage and kBroadcast.
enum class Buffers : std::uint8_t {
  kAverage,    // the mean over all ranks
  kBroadcast,  // the values of rank 0
  kLeave,      // each rank keeps its own
};

// Which workers have one copy of a model, a replica, together (home=group).
enum class Replica {
  kHost,  // those of a host, in shared memory; optimizer state is divided among all hosts
  kRank,  // every worker has its own, with all optimizer state: the loss of a host costs no state
};

// How ranks sum gradients that lie on GPUs (home=group, update=bsp), and hand over encoded ones.
enum class DeviceSums : std::uint8_t {
  kAuto,  // kShared if all ranks have the same GPU, kNccl if each has its own, else kShared on each
          // GPU and kNccl across them
  kShared,  // each rank reads the memory of the others: for ranks that share a GPU
  kNccl,    // by NCCL, which needs a GPU per rank
  kHost,    // through host memory
};

// Scaling of the loss for training with float16, whose small gradients would vanish: the trainer
// multiplies the loss by a factor before the backward pass, and divides the gradients by it. An
// update whose gradient is not finite on any rank is discarded on all ranks, and the factor falls.
// With asp, ssp, kbatch, kasync and softsync, whose updates do not have the gradients of all ranks,
// each rank discards its own gradient and has a factor of its own. After kMostDiscarded discarded
// updates in a row the trainer throws a Divergence.
struct LossScale {
  static constexpr std::uint64_t kMostDiscarded = 100;
  double initial = 65536;
  double growth = 2;              // of the factor, after `interval` updates without an overflow
  double backoff = 0.5;           // of the factor, after an overflow
  std::uint64_t interval = 2000;  // updates
};

struct TrainerOptions {
  // The update policy, see docs/policies.md. A plan that this version does not support is refused.
  std::string plan = {};
  std::uint64_t seed = 1;            // of random choices and delays; must be equal on all ranks
  std::size_t bucket_bytes = 0;      // 0: a default chosen by measurement
  std::optional<double> clip_value;  // limit for each element of the gradient, before clip_norm
  std::optional<double> clip_norm;   // limit for the Euclidean norm of the whole gradient
  int accumulate = 1;                // calls of step() per update
  // Before a custom loop calls backward() it multiplies its loss by Trainer::loss_scale().
  std::optional<LossScale> loss_scale;
  Buffers buffers = Buffers::kAverage;
  std::vector<ParameterGroup> groups;
  RateSchedule schedule;
  // Keeps memory that libtorch frees in the process, instead of returning it to the system after
  // every step and faulting it in again in the next: a step is up to a fifth shorter. Applies to
  // the whole process, for the rest of its life.
  bool keep_freed_memory = true;
  Replica replica = Replica::kHost;
  // home=group: updates values and optimizer state in place, instead of beside the present version.
  // That saves a copy of both per host, and time where they exceed the caches (a step of the mlp of
  // `tally bench train` is a tenth shorter). After an error the parameters are then undefined.
  bool in_place = false;
  DeviceSums device_sums = DeviceSums::kAuto;
  // Where the model lies on GPUs: each rank keeps the optimizer state and master copies of its part
  // of the model only, and the others send it the new values of theirs. The results have the same
  // bits. The state of a lost rank is lost with it. In host memory the ranks of a host have one
  // state together anyway.
  bool shard_state = false;
  // On a GPU: captures the forward and backward pass of step() as a CUDA graph and replays it. This
  // concerns the steps with the most samples; others, such as the last of an epoch, run as usual.
  // The closure is then no longer called, so it must read its batch from tensors that the caller
  // fills before each step; Trainer::shard() does that. What cannot be captured runs as usual, and
  // on_event is told why.
  bool graphs = false;
  // Artificial slowness, to measure the benefit of a plan. straggle: "rank=1,factor=4" makes the
  // steps of rank 1 take four times their compute time. delay: "exponential:20ms", "constant:5ms"
  // or "exponential:1x" (of the compute time) is added to the steps of all ranks.
  std::string straggle = {};
  std::string delay = {};
  ServerOptions servers = {};  // for home=server
  // Called with the choice of codec=auto and its reason, and with events of servers and workers,
  // the latter from other threads.
  std::function<void(const std::string& sentence)> on_event = {};
};

struct StepOutcome {
  double loss = 0;            // mean over the samples of all ranks; home=server: of this rank
  std::uint64_t samples = 0;  // likewise
  // False inside an accumulation, if no rank had a sample, and if loss scaling has discarded the
  // update.
  bool updated = false;
};

// The fate of this rank's gradients.
struct PolicyFigures {
  std::vector<std::uint64_t>
      staleness;  // by staleness in updates: gradients applied; the last entry: that many or more
  std::uint64_t dropped = 0;  // arrived too late, or were not sent for that reason
};

// The time of this rank since the trainer was created.
struct TimeSplit {
  Duration compute{};      // forward and backward inside step()
  Duration communicate{};  // copying and summing gradients, updating parameters
  Duration wait{};         // for other ranks
};

// A rank's part of the samples of one step.
struct TensorBatch {
  at::Tensor x;
  at::Tensor y;
  std::uint64_t epoch = 0;  // passes over the data before this batch
  bool ends_epoch = false;  // the last batch of its epoch
  std::uint64_t size() const { return static_cast<std::uint64_t>(x.size(0)); }
};

struct ShardOptions {
  std::uint64_t batch = 32;  // samples per rank and step
  int epochs = 1;
  bool shuffle = true;
  std::uint64_t seed = 1;  // of the sample order; must be equal on all ranks
};

namespace data {
struct ShardCourse;
}

// This rank's batches of a dataset that all ranks have. In each epoch all ranks together see every
// sample once, in an order that depends on seed and epoch. All ranks get the same number of
// batches; in the last batch of an epoch sizes differ by one, and may be 0. For range-based loops;
// a second loop continues where the first one ended.
class Shard {
  struct State;

 public:
  class Iterator {
   public:
    const TensorBatch& operator*() const { return batch_; }
    const TensorBatch* operator->() const { return &batch_; }
    Iterator& operator++();
    // Compares only whether batches remain.
    bool operator!=(const Iterator& other) const {
      return (state_ == nullptr) != (other.state_ == nullptr);
    }

   private:
    friend class Shard;
    explicit Iterator(std::shared_ptr<State> state) : state_(std::move(state)) {}
    void load();

    std::shared_ptr<State> state_;  // null at the end
    TensorBatch batch_;
  };

  // Takes the next batch.
  Iterator begin();
  Iterator end() { return Iterator(nullptr); }
  // Batches of all epochs, those before a restored position included.
  std::uint64_t size() const;

 private:
  friend class Trainer;
  friend Shard shard(Job& job, at::Tensor x, at::Tensor y, const ShardOptions& options);
  explicit Shard(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<data::ShardCourse>& course() const;

  std::shared_ptr<State> state_;  // shared by copies of this object
};

// A shard from the beginning of the data, such as for an evaluation. Trainer::shard() is for
// training: its position is saved. `x` and `y` have the samples along their first dimension.
// Failure kInvalid if the numbers differ.
Shard shard(Job& job, at::Tensor x, at::Tensor y, const ShardOptions& options = {});

// One module on all ranks of a job, trained as if one process saw the samples of all ranks. The
// parameters that require gradients at construction are trained. The ranks of a host share the
// memory of the parameters, which exist once per host, and read each other's gradients. Ranks sum
// and update complete buckets while backward still runs.
//
//   Trainer trainer(*job, *net, sgd({.rate = 0.1, .momentum = 0.9}));
//   for (const TensorBatch& batch : trainer.shard(images, labels, {.batch = 64, .epochs = 3}))
//     trainer.step(batch.size(), [&] { return loss(net->forward(batch.x), batch.y); });
//
// or, in a custom loop, with any number of backward() calls before an update:
//
//   loss.backward();
//   trainer.apply(samples);
//
// With update=backup:B (and asp, ssp, kbatch, kasync, softsync on servers) ranks are not in step:
// loops run until steps() reaches their end, and meet() brings the ranks together. With backup:B
// the parameters of a straggler change while it computes, once the other ranks are two updates
// ahead; its gradient then does not count.
//
// Gradients are weighted by samples. Between backward() and apply() the caller may change `.grad`
// of a parameter; an update consumes it. Every rank makes the same calls. A
// parameter that a rank's loss does not use counts as zero there; it is not updated if no rank uses
// it. After the trainer's destruction the module has its own parameters.
//
// An update is written beside the present version of the parameters, and committed at the end of
// step() or apply(). No parameter changes during backward, and after a Failure the parameters have
// the values from before the update. On the CPU a committed update moves the parameters to other
// memory: tensors that share their storage follow, pointers from data_ptr() do not.
//
// A module on a GPU, where it must be before the trainer is made (net->to(device_of(*job))), is a
// copy of the model of its own. With home=group update=bsp, and most codecs, gradients stay on the
// GPU, and an update is applied in place when all ranks have all sums: a step that fails before
// that leaves the parameters as they were. Other plans update in host memory. docs/gpu.md has the
// rules.
//
// Threads: calls must not overlap.
class Trainer {
 public:
  // Copies the parameters and buffers of rank 0 to all ranks. Failure kMismatch if the models
  // differ; kInvalid if another trainer trains a parameter of the module.
  Trainer(Job& job, torch::nn::Module& module, const OptimizerSpec& optimizer,
          TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Runs forward and backward, and the update after every `accumulate` calls. `mean_loss` returns
  // the mean over this rank's `samples`. It is not called with 0 samples, when the rank takes part
  // without a gradient, nor on a rank that update=subset:K has not drawn.
  StepOutcome step(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss);

  // Updates from the gradients in `.grad`, which are means over `samples`. `loss` is reported in
  // the outcome.
  StepOutcome apply(std::uint64_t samples, double loss = 0);
  void zero_grad();

  // This rank has no more data: it takes part without gradients until all ranks have called
  // drain().
  void drain();

  // Call before evaluating; checkpoint() does so itself. TrainerOptions::buffers selects the
  // treatment.
  void synchronise_buffers();

  // The learning rate of the next update, for parameters in no group.
  double rate() const;
  // The present factor of the loss; 1 without TrainerOptions::loss_scale.
  double loss_scale() const;
  // Updates that loss scaling has discarded.
  std::uint64_t discarded() const;
  // Updates so far.
  std::uint64_t steps() const;
  RateSchedule& schedule();
  TimeSplit times() const;
  // Bytes of optimizer state on this rank, master copies included.
  std::size_t state_bytes();
  // Bytes that this rank has allocated for the model: its gradients, its optimizer state in two
  // versions, and on the first rank of a host the values in two versions. On a GPU there is one
  // version. home=server: without the memory of servers.
  std::size_t memory_bytes() const;

  // The sums over all ranks. Collective.
  std::vector<double> sum(std::vector<double> values);

  // Whether this is the lowest rank that is still in the job.
  bool is_first() const;
  // Whether all ranks make their steps together: steps() is then equal on all ranks after each
  // step.
  bool in_step() const;
  // Waits until all ranks have called meet(). Afterwards steps() is the maximum of all ranks and
  // the parameters are the newest. Call before evaluating and saving if not in_step(). Returns the
  // sums of `values`.
  std::vector<double> meet(std::vector<double> values = {});
  // Whether this rank should call meet() before its next step, so that the ranks meet at `step`
  // exactly. With asp the ranks meet a few gradients before, and share the missing ones among them:
  // steps() is then less than `step` after meet(), and the caller asks again. All ranks ask for the
  // same step.
  bool is_due(std::uint64_t step);
  PolicyFigures figures() const;

  // This rank's batches of a dataset that all ranks have. All ranks call it with the same options.
  // The position is part of checkpoint(): a restored trainer continues with the batch after the
  // last update, also with another number of ranks or another batch size. With
  // TrainerOptions::graphs the batches of the usual size are all in the same tensors: copy what
  // must outlive an iteration. restore() may come before or after this call. A program with several
  // shards makes them in the same order after each start. Failure kMismatch if ranks have different
  // options, or if a position inside an epoch belongs to other data or to another order.
  Shard shard(at::Tensor x, at::Tensor y, const ShardOptions& options = {});

  // home=server: sets the rows of these keys, each once, of the module's SparseEmbedding with this
  // name, and clears their optimizer state. One rank is enough; no rank may be in a step, so a
  // sum() of all ranks follows. Failure kInvalid if there is no such embedding, or with home=group,
  // where its parameter `weight` has the rows.
  void assign_rows(const std::string& embedding, std::span<const std::uint64_t> keys,
                   std::span<const float> rows);

  // The complete state for Writer::save(), from which a restored trainer continues bit for bit,
  // except with Buffers::kLeave. All ranks call it; it calls synchronise_buffers().
  // Points into the trainer's memory: valid until the next call. `state` is a JSON object with the
  // member "trainer". Parameters on a GPU are copied until Writer::save() has written them or the
  // next update begins: a program that changes them itself before that changes the checkpoint.
  checkpoint::Content checkpoint();
  // Restores a checkpoint of any number of ranks. Failure kMismatch if the model or the kind of
  // optimizer differs; kInvalid for a file of weights alone.
  void restore(const checkpoint::Reader& reader);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The outcome of load_weights(). Tensors of the module are listed in its order, tensors of the file
// in the order of the file.
struct LoadReport {
  std::size_t loaded = 0;               // tensors of the module that now have the file's values
  std::vector<std::string> missing;     // tensors of the module that the file does not have
  std::vector<std::string> unexpected;  // tensors of the file that the module does not have
  std::vector<std::string> mismatched;  // "fc.weight: the module has [10, 4], the file [30, 4]"

  bool is_complete() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
};
// One line per kind of difference, with at most eight names; "4 tensors loaded" if there is none.
std::string to_string(const LoadReport& report);

// Copies the tensors of a checkpoint, or of a safetensors file that another program wrote, to the
// parameters and buffers with the same names, and converts them to their types; real values for
// integers are a mismatch. Tied parameters take the value of the first of their names that the file
// has. Missing and mismatched tensors stay as they are. Failure if the file cannot be read.
//
//   const auto reader = or_throw(checkpoint::Reader::open("pretrained.safetensors"));
//   const LoadReport report = load_weights(*net, *reader);
//   if (!report.is_complete()) std::puts(to_string(report).c_str());
//
// Call it before the trainer is made, which copies the values of rank 0 to all ranks.
LoadReport load_weights(torch::nn::Module& module, const checkpoint::Reader& reader);

struct SyncBatchNormOptions {
  std::int64_t features = 0;
  double epsilon = 1e-5;
  double momentum = 0.1;
  bool affine = true;
};

// Batch normalisation over (N, C, ...) with the statistics of all ranks' batches: N ranks with B
// samples behave as one rank with N * B. Construction and training are collective, so in training
// every rank needs a sample in every step. Parameters and buffers are named as in
// torch::nn::BatchNorm.
class SyncBatchNormImpl : public torch::nn::Module {
 public:
  SyncBatchNormImpl(Communicator& world, const SyncBatchNormOptions& options);
  at::Tensor forward(const at::Tensor& input);

  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;
  at::Tensor num_batches_tracked;

 private:
  const SyncBatchNormOptions options_;
  // Shared with backward passes that have not run yet.
  std::shared_ptr<Communicator> communicator_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace tally
