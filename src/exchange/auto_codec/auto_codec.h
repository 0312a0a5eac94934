#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "exchange/auto_codec/codec_decision.h"
#include "exchange/lane/lane.h"
#include "exchange/memory/parameter_layout.h"
#include "plan/codec_spec.h"

namespace tally::exchange {

// Chooses the codec of each bucket for codec=auto. AutoCodec measures for kSteps steps while
// buckets travel uncompressed. It probes the wire between steps. It records how long before the end
// of the backward pass each bucket is ready. After each step it times a few candidate codecs on a
// part of each bucket's own gradient. An all-reduce takes the maximum of each number over all
// ranks, so that all ranks predict alike. The job then uses each of the predicted best assignments
// (finalists()) for some steps, and the assignment with the shortest steps is chosen. The optimizer
// keeps the momentum: chosen codecs have momentum=late.
//
//   ready(b) ... ended() -> stepped() -> measure() while is_measuring() -> next() -> goes_on()
//   in each step, until the outcome of next() is_chosen
//
// Threads: calls must not overlap.
class AutoCodec final {
 public:
  // Steps that measure. In the first of them every bucket becomes ready only at the end of the
  // backward pass, so that step gives no early_.
  static constexpr int kSteps = 4;
  // At most kMostTried assignments are tried beside the uncompressed one, for kTrySteps steps each.
  // The first of these steps is not timed, because it allocates memory.
  static constexpr std::size_t kMostTried = 3;
  static constexpr int kTrySteps = 4;

  struct Options {
    const plan::CodecSpec& spec;
    const std::vector<ParameterInfo>& parameters;
    const std::vector<BucketLayout>& buckets;
    std::vector<Range> local;  // by bucket: this lane's range of it
    int hosts = 2;
    std::uint64_t seed = 1;
    std::optional<codec::WireCost> wire;  // if known, the wire is not measured
    // False: the assignment with the best prediction is chosen without a trial.
    bool tries = true;
  };
  // The objects that `options` refers to must outlive this one.
  explicit AutoCodec(Options options);

  // The bucket is ready to be sent.
  void ready(std::size_t bucket);
  // The backward pass has ended.
  void ended();
  // The step has ended.
  void stepped();
  bool is_measuring() const { return steps_ < kSteps; }
  // gradients[b] is the average of this lane's part of bucket b, in float32. Called by all ranks of
  // the lane.
  Result<void> measure(Lane& lane, std::span<const std::span<const float>> gradients);

  struct Outcome {
    std::vector<plan::CodecSpec> codecs;  // by bucket, from the next step on
    bool is_chosen = false;               // final
    std::string sentence;                 // if is_chosen: the choice and its reason, for the log
  };
  // The codecs to use from now on; nullopt: no change. Called by all ranks.
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
  std::vector<plan::CodecSpec> specs_;  // candidates; the first is none
  int steps_ = 0;
  std::optional<double> small_seconds_;  // the shortest probe so far
  std::optional<double> large_seconds_;
  std::size_t large_bytes_ = 0;
  std::vector<std::optional<TimePoint>> ready_at_;  // by bucket, in this step
  std::vector<double> early_;                       // by bucket: the shortest lead, in seconds
  // By bucket, then by candidate.
  std::vector<std::vector<codec::Candidate>> costs_;
  // Set when measuring is complete.
  CodecFigures agreed_;
  std::vector<CodecDecision> ways_;
  std::size_t way_ = 0;  // the assignment in use
  int steps_of_way_ = 0;
  std::vector<double> step_seconds_;  // by assignment: the shortest step
  std::optional<TimePoint> begin_;    // of this step
};

}  // namespace tally::exchange
