#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <torch/torch.h>

namespace tally::adapter {

// The tensors that hold every full batch of one shard: a captured step reads them in each replay.
struct BatchTensors {
  at::Tensor x;
  at::Tensor y;
};

// Decides which steps of a trainer run as a CUDA graph. A graph repeats one step: it fits steps
// with the same number of samples whose batches lie in the same tensors. Knows no CUDA. Threads:
// one.
class CaptureRule final {
 public:
  enum class Way { kPlain, kCapture, kReplay };

  // A shard has loaded a batch into its tensors, for the next step.
  void loaded(std::shared_ptr<const BatchTensors> tensors);
  // How to run the next step. kCapture: the caller drops the graph that it has, captures the step
  // and replays it.
  Way next(std::uint64_t samples);
  // The values of the model have moved: the graph must be captured again.
  void forget_graph();
  // The capture of the step has failed; the steps from now on are plain.
  void give_up() { gave_up_ = true; }
  // Whether batches have to be in BatchTensors.
  bool wants_batches() const { return !gave_up_; }

 private:
  using Batches = std::vector<std::shared_ptr<const BatchTensors>>;

  void begin_anew(std::uint64_t samples, Batches batches);

  std::uint64_t samples_ = 0;  // of the steps that are captured
  Batches batches_;    // that they read, in the order of their addresses; owned by the graph
  Batches loaded_;     // since the last step
  int warmed_up_ = 0;  // such steps so far, up to kWarmUpSteps
  bool has_graph_ = false;
  bool gave_up_ = false;
};

}  // namespace tally::adapter
