#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "tally/checkpoint.h"
#include "tally/job.h"
#include "tally/optimizer.h"
#include "tally/rate_schedule.h"

// Training of libtorch modules by all ranks of a job. What libtorch users expect to be thrown is
// thrown here: everything ends with a Failure that names the rank and what happened.
namespace tally {

class Failure : public std::runtime_error {
 public:
  explicit Failure(Error error) : std::runtime_error(to_string(error)), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// Job::join() for programs that throw.
std::unique_ptr<Job> join();

// Parameters with settings of their own. The first group that matches a parameter has it; the
// optimizer given to the trainer has the rest. All are of one kind.
struct ParameterGroup {
  std::function<bool(const std::string& name, const at::Tensor& parameter)> matches;
  OptimizerSpec optimizer;
};

// Weight decay off for biases and normalisation: whatever has fewer than two dimensions.
ParameterGroup without_decay(OptimizerSpec optimizer);

// What becomes of buffers, such as batch-norm statistics, in synchronise_buffers(). Whole numbers
// are rank 0's in the first two.
enum class Buffers : std::uint8_t {
  kAverage,    // over all ranks
  kBroadcast,  // rank 0's
  kLeave,      // each rank its own
};

// Where the parameter servers of home=server are.
struct ServerOptions {
  // HOST:PORT; empty: inside the workers. Rank 0 has the directory then, and the first `count`
  // workers a server each.
  std::string directory = {};
  int count = 0;  // inside the workers; 0: one in each
  int replicas =
      0;  // copies of everything, inside the workers; 0: two, or one where there is one server
  std::optional<Secret> secret = {};  // as the job's
  // Inside the workers: where others reach this process. Needs a secret unless it is loopback.
  std::string host = "127.0.0.1";
  std::string snapshots = {};  // inside the workers: folder of their snapshots; empty: none
};

struct TrainerOptions {
  // How gradients come together, as in docs/policies.md; refused if this version does not offer it.
  std::string plan = {};
  std::uint64_t seed = 1;  // of what a plan leaves to chance, and of delays; the same on all ranks
  std::size_t bucket_bytes = 0;      // 0: as measured to be good
  std::optional<double> clip_value;  // each element of the gradient, before clip_norm
  std::optional<double> clip_norm;   // the Euclidean norm of the whole gradient
  int accumulate = 1;                // calls of step() behind each update
  Buffers buffers = Buffers::kAverage;
  std::vector<ParameterGroup> groups;
  RateSchedule schedule;
  // Memory that libtorch frees stays with the process, instead of going back to the system after
  // every step and being faulted in again in the next: a step is up to a fifth shorter. Of the
  // whole process, and from then on.
  bool keep_freed_memory = true;
  // Slowness on purpose, to see what a plan is worth: "rank=1,factor=4" makes that rank's steps
  // take four times their computing; "exponential:20ms", "constant:5ms" or "exponential:1x" (of the
  // computing) is added to everybody's.
  std::string straggle = {};
  std::string delay = {};
  ServerOptions servers = {};  // of home=server
  // Hears what codec=auto has chosen and why, and what happens to servers and workers, the latter
  // from threads of its own.
  std::function<void(const std::string& sentence)> on_event = {};
};

struct StepOutcome {
  double loss = 0;            // mean over all samples of all ranks; with home=server of this rank
  std::uint64_t samples = 0;  // likewise
  bool updated = false;       // not inside an accumulation, and not if nobody had a sample
};

// What became of this rank's gradients.
struct PolicyFigures {
  std::vector<std::uint64_t>
      staleness;  // how many were applied 0, 1, 2, ... updates late; the last: that or more
  std::uint64_t dropped = 0;  // came too late, or were not sent because they would have
};

// Where the time of this rank went since the trainer was made.
struct TimeSplit {
  Duration compute{};      // forward and backward inside step()
  Duration communicate{};  // moving and summing gradients, updating parameters
  Duration wait{};         // for other ranks
};

// One module on all ranks of a job, trained as if one process saw the samples of all of them. The
// parameters that require gradients when it is made are trained; on one host they lie in memory
// that its ranks share, once for all, and gradients where the others read them. While backward
// still runs, ranks sum and update what is complete.
//
//   Trainer trainer(*job, *net, sgd({.rate = 0.1, .momentum = 0.9}));
//   for (...) trainer.step(batch.size(), [&] { return loss(net->forward(batch.x), batch.y); });
//
// or, in a loop of one's own, as often as one likes before an update:
//
//   loss.backward();
//   trainer.apply(samples);
//
// With update=backup:B (and asp, ssp, kbatch on servers) ranks are not in step: loops go on until
// steps() says so, and ranks come together by meet(). Under a rank that is late the parameters
// change while it computes; its gradient does not count then.
//
// Gradients are weighted by samples. Between backward() and apply() `.grad` of each parameter is a
// view of its bucket (on the CPU); an update uses it up. Every rank makes the same calls.
// Parameters that a loss does not use count as zero, and as untouched if no rank uses them. After
// the trainer the module has parameters of its own.
//
// Inside step() a parameter changes as soon as all ranks have its gradient, while backward still
// runs. What autograd does not see using it (`linear(x, w.detach())`) must use a copy
// (`w.detach().clone()`), or be trained by backward() and apply(), which changes nothing before it
// is called.
//
// With schedule=priority (several hosts with one rank each) step() returns while new parameters are
// still on their way. The operations of libtorch in the next step()'s `mean_loss`, in the thread
// that called it, wait for what they use. Whoever reads parameters elsewhere calls settle() first;
// what gives them to others (checkpoint(), synchronise_buffers(), meet(), sum(), drain()) and
// apply() do so themselves. Threads: one at a time.
class Trainer {
 public:
  // Rank 0's parameters and buffers go to all. Failure kMismatch if ranks have different models.
  Trainer(Job& job, torch::nn::Module& module, const OptimizerSpec& optimizer,
          TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Forward, backward, and the update once `accumulate` calls have been made. `mean_loss` gives the
  // mean over this rank's `samples`; with 0 samples it is not called, and the rank takes part with
  // nothing; nor is it called for a rank that update=subset:K has not drawn.
  StepOutcome step(std::uint64_t samples, const std::function<at::Tensor()>& mean_loss);

  // The update from the gradients that lie in `.grad`: means over `samples`. `loss` is for the
  // outcome.
  StepOutcome apply(std::uint64_t samples, double loss = 0);
  void zero_grad();

  // This rank has no more data: takes part with nothing until all ranks have called it.
  void drain();

  // Until the parameters have the values of the last step(). Failure, as the next step would, if
  // they cannot get them.
  void settle();

  // Before evaluating or saving, as the options say.
  void synchronise_buffers();

  // Of the next update, for parameters in no group.
  double rate() const;
  // Updates so far.
  std::uint64_t steps() const;
  RateSchedule& schedule();
  TimeSplit times() const;
  // Bytes of optimizer state, master copies included, that this rank has.
  std::size_t state_bytes();

  // The sums over all ranks.
  std::vector<double> sum(std::vector<double> values);

  // Whether this is the lowest rank of those who are there.
  bool is_first() const;
  // Whether all ranks make their steps together: then steps() is the same on all after each.
  bool in_step() const;
  // Where they do not: all ranks wait for each other. Afterwards steps() is that of the farthest
  // everywhere, and the parameters are the newest. Before evaluating and saving. Gives the sums of
  // `values`.
  std::vector<double> meet(std::vector<double> values = {});
  PolicyFigures figures() const;

  // Everything that a restored trainer needs to go on with the same bits, for Writer::save().
  // Points into the trainer's memory: valid until the next call. `state` is a JSON object with the
  // member "trainer".
  checkpoint::Content checkpoint();
  // From any number of ranks. Failure kMismatch if it is not of this model and kind of optimizer.
  void restore(const checkpoint::Reader& reader);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A rank's part of one step's samples.
struct TensorBatch {
  at::Tensor x;
  at::Tensor y;
  std::uint64_t size() const { return static_cast<std::uint64_t>(x.size(0)); }
};

struct ShardOptions {
  std::uint64_t batch = 32;  // samples per rank and step
  int epochs = 1;
  bool shuffle = true;
  std::uint64_t seed = 1;  // of the order; the same on all ranks
};

// This rank's batches of data that all ranks have: in each epoch every sample once over all ranks,
// in an order by seed and epoch. All ranks get the same number of batches; in the last of an epoch
// sizes differ by one, and may be 0. Made for a range-based for:
//
//   for (const TensorBatch& batch : shard(*job, images, labels, {.batch = 64, .epochs = 3}))
class Shard {
 public:
  class Iterator {
   public:
    const TensorBatch& operator*() const { return batch_; }
    const TensorBatch* operator->() const { return &batch_; }
    Iterator& operator++();
    // Only whether the batches are used up is compared.
    bool operator!=(const Iterator& other) const { return left_ != other.left_; }

   private:
    friend class Shard;
    explicit Iterator(Shard* shard, std::uint64_t left) : shard_(shard), left_(left) {}
    void load();

    Shard* shard_;
    std::uint64_t left_;
    TensorBatch batch_;
  };

  // Once.
  Iterator begin();
  Iterator end() { return Iterator(this, 0); }
  // Batches of all epochs.
  std::uint64_t size() const;

 private:
  friend Shard shard(Job& job, at::Tensor x, at::Tensor y, const ShardOptions& options);
  struct State;
  explicit Shard(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;  // shared by copies of this value
};

// `x` and `y` have the samples along their first dimension. Failure kInvalid if they have not
// equally many.
Shard shard(Job& job, at::Tensor x, at::Tensor y, const ShardOptions& options = {});

struct SyncBatchNormOptions {
  std::int64_t features = 0;
  double epsilon = 1e-5;
  double momentum = 0.1;
  bool affine = true;
};

// Batch normalisation over (N, C, ...) with the statistics of all ranks' batches: N ranks with B
// samples behave as one with N * B. Making it and training with it are collective, so in training
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
  // Shared with the backward passes that are still to come.
  std::shared_ptr<Communicator> communicator_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace tally
