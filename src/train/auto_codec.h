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

// codec=auto in its first steps. In the first kSteps of them buckets travel as they are: it
// measures the wire by probes between steps, how long before the end of the backward pass buckets
// are ready, and what each candidate costs on a part of each bucket's own gradient, a few
// candidates after each step. All ranks take the largest of everybody's numbers and predict alike.
// What is predicted to be the best, in a few ways (finalists()), is then used for some steps each,
// and what had the shortest steps is chosen. Momentum stays the optimizer's: what is chosen has
// momentum=late.
//
//   ready(b) ... ended() -> stepped() -> measure() while is_measuring() -> next() -> goes_on() in
//   each step until next() says it is chosen
//
// Threads: calls must not overlap.
class AutoCodec final {
 public:
  // Of the first one it is not known how early buckets are: none is ready before its end.
  static constexpr int kSteps = 4;
  // At most so many ways are tried beside that of everything as it is, each for so many steps, of
  // which the first is not timed: it finds no memory at hand.
  static constexpr std::size_t kMostTried = 3;
  static constexpr int kTrySteps = 4;

  struct Options {
    const plan::CodecSpec& spec;
    const std::vector<ParameterInfo>& parameters;
    const std::vector<BucketLayout>& buckets;
    std::vector<Range> local;  // by bucket: what this lane has of it
    int hosts = 2;
    std::uint64_t seed = 1;
    std::optional<codec::WireCost> wire;  // known: it is not measured
    // Otherwise what is predicted to be the best is chosen.
    bool tries = true;
    // Steps do not wait for their updates, but in those that measure they do: everything as it is
    // is to be tried like the others.
    bool is_late = false;
  };
  // What it refers to outlives it.
  explicit AutoCodec(Options options);

  // The bucket goes on its way now.
  void ready(std::size_t bucket);
  // The backward pass is over.
  void ended();
  // The step is over.
  void stepped();
  bool is_measuring() const { return steps_ < kSteps; }
  // gradients[b] has the average of what the lane has of bucket b, in float32. Called by all ranks
  // of the lane.
  Result<void> measure(Lane& lane, std::span<const std::span<const float>> gradients);

  struct Outcome {
    std::vector<plan::CodecSpec> codecs;  // by bucket: from now on
    bool is_chosen = false;               // for good
    std::string sentence;                 // then: what was chosen, and why
  };
  // What is to be used from now on; none: nothing changes. Called by all ranks.
  Result<std::optional<Outcome>> next(Communicator& world);
  // The next step begins.
  void goes_on();

 private:
  Result<void> probe(Lane& lane);
  codec::Candidate candidate_of(std::size_t bucket, std::size_t candidate) const;
  CodecFigures figures() const;
  Result<CodecFigures> agreed_figures(Communicator& world) const;
  Outcome outcome_of(std::size_t way) const;
  Result<Outcome> choose(Communicator& world);

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
  // Once it has measured.
  CodecFigures agreed_;
  std::vector<CodecDecision> ways_;
  std::size_t way_ = 0;  // the one that is in use
  int steps_of_way_ = 0;
  std::vector<double> step_seconds_;  // by way: the shortest step
  std::optional<TimePoint> begin_;    // of this step
};

}  // namespace tally::train
