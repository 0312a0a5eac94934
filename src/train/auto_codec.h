#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "plan/codec_spec.h"
#include "train/codec_decision.h"
#include "train/lane.h"
#include "train/parameter_layout.h"

namespace tally::train {

// codec=auto in its first steps, in which buckets travel as they are: measures the wire by probes between steps, how long before the end of
// the backward pass buckets are ready, and what each candidate costs on a run of each bucket's own gradient, a few candidates
// after each step. Then all ranks take the largest of everybody's numbers and decide alike. Momentum stays the optimizer's: what is chosen
// has momentum=late.
//
//   ready(b) ... ended() -> measure()      in each of kSteps steps, then agree()
//
// Threads: calls must not overlap.
class AutoCodec final {
 public:
  // Of the first one it is not known how early buckets are: none is ready before its end.
  static constexpr int kSteps = 4;

  struct Options {
    const plan::CodecSpec& spec;
    const std::vector<ParameterInfo>& parameters;
    const std::vector<BucketLayout>& buckets;
    std::vector<Range> local;  // by bucket: what this lane has of it
    int hosts = 2;
    std::uint64_t seed = 1;
    std::optional<codec::WireCost> wire;  // known: it is not measured
  };
  // What it refers to outlives it.
  explicit AutoCodec(Options options);

  // The bucket goes on its way now.
  void ready(std::size_t bucket);
  // The backward pass is over.
  void ended();
  // After the step. gradients[b] has the average of what the lane has of bucket b, in float32. Called by all ranks of the lane.
  Result<void> measure(Lane& lane, std::span<const std::span<const float>> gradients);
  bool is_done() const { return steps_ == kSteps; }

  struct Outcome {
    std::vector<plan::CodecSpec> codecs;  // by bucket
    bool all_plain = true;
    std::string sentence;  // what was chosen, and why
  };
  // Once it is done. Called by all ranks.
  Result<Outcome> agree(Communicator& world) const;

 private:
  Result<void> probe(Lane& lane);
  void try_on(std::size_t bucket, std::size_t candidate, std::span<const float> gradient);
  codec::Candidate candidate_of(std::size_t bucket, std::size_t candidate) const;
  CodecFigures figures() const;

  const Options options_;
  const SteadyClock clock_;
  std::vector<plan::CodecSpec> specs_;  // candidates, none first
  int steps_ = 0;
  std::optional<double> small_seconds_;  // of probes, the shortest so far
  std::optional<double> large_seconds_;
  std::size_t large_bytes_ = 0;
  std::vector<std::optional<TimePoint>> ready_at_;  // by bucket, in this step
  std::vector<double> early_;                       // by bucket: the shortest, in seconds
  // By bucket, then by candidate.
  std::vector<std::vector<codec::Candidate>> costs_;
};

}  // namespace tally::train
