#include "adapters/torch/capture_rule.h"

#include <algorithm>
#include <utility>

// The first steps of a kind run as usual: libraries choose their algorithms and allocate their
// workspaces then, which cannot be captured.
//
//   more samples than those of the graph   the last batch of an epoch, with which a training may
//                                          begin, is smaller than the others: begin anew
//   fewer samples                          a plain step, and the graph is kept
//   batches in other tensors               the graph would read the batch of an earlier step:
//                                          begin anew
//   no batch was loaded since              the same batch again, or a loop without a shard. Where
//                                          steps have batches of several shards, this one may read
//                                          another of them: a plain step
namespace tally::adapter {
namespace {

constexpr int kWarmUpSteps = 3;

}  // namespace

void CaptureRule::loaded(std::shared_ptr<const BatchTensors> tensors) {
  const auto place = std::lower_bound(loaded_.begin(), loaded_.end(), tensors);
  if (place == loaded_.end() || *place != tensors) loaded_.insert(place, std::move(tensors));
}

void CaptureRule::forget_graph() {
  warmed_up_ = 0;
  has_graph_ = false;
}

void CaptureRule::begin_anew(std::uint64_t samples, Batches batches) {
  samples_ = samples;
  batches_ = std::move(batches);
  forget_graph();
}

CaptureRule::Way CaptureRule::next(std::uint64_t samples) {
  Batches loaded = std::exchange(loaded_, {});
  if (gave_up_) return Way::kPlain;
  const bool has_loaded = !loaded.empty();
  if (samples > samples_ || (has_loaded && loaded != batches_))
    begin_anew(samples, std::move(loaded));
  const bool may_read_others = !has_loaded && batches_.size() > 1;
  if (samples != samples_ || may_read_others) return Way::kPlain;
  if (has_graph_) return Way::kReplay;
  if (warmed_up_ == kWarmUpSteps) {
    has_graph_ = true;
    return Way::kCapture;
  }
  ++warmed_up_;
  return Way::kPlain;
}

}  // namespace tally::adapter
