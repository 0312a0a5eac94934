#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "exchange/lane/bucket_codec.h"
#include "exchange/lane/lane.h"

namespace tally::exchange {

// Carries the buckets of a step over two lanes: one for BucketCodec::first(), one for second(), so
// that the ways of different buckets overlap. Codecs run in the calls of this object; between them
// the lanes' communicators move the bytes.
//
//   submit(b) for each bucket, in order, then wait(b); in every step
//
// The memory that a submitted step borrows must stay valid until wait() has returned. After an
// error all unfinished buckets end with it. Threads: calls must not overlap.
class LanePipeline final {
 public:
  struct Lanes {
    std::unique_ptr<Lane> there;
    std::unique_ptr<Lane> back;
  };
  LanePipeline(Lanes lanes, std::vector<std::unique_ptr<BucketCodec>> buckets);
  // Aborts operations in progress by closing the lanes.
  ~LanePipeline();
  LanePipeline(const LanePipeline&) = delete;
  LanePipeline& operator=(const LanePipeline&) = delete;

  bool takes_sums(std::size_t bucket) const { return buckets_[bucket]->takes_sums(); }
  void submit(std::size_t bucket, const LaneStep& step);
  // Does the work that does not have to wait. An error is kept for wait().
  void advance();
  // Ends all unfinished buckets with `error`, on the other members as well. Without it members
  // would wait for a rank that has failed elsewhere.
  void fail(const Error& error);
  // Waits until the bucket has the values of all members, within the deadlines of the lanes'
  // operations. After an error no operation uses the steps' memory any more.
  Result<void> wait(std::size_t bucket);

  // Call only when no bucket is in progress, or after an error.
  std::vector<CodecState> states();
  // For other messages between the members.
  Lane& lane() { return *lanes_.there; }

 private:
  // The state of a bucket in a step; kThere: it has arrived.
  enum class Stage : std::uint8_t { kIdle, kReady, kUnderWay, kThere };
  // A bucket on one of the lanes.
  struct Passage {
    std::size_t bucket = 0;
    Delivery delivery;
  };
  // The passages of a lane in the order in which they began. The next may begin when the last one
  // has started all its operations.
  struct Way {
    std::deque<Passage> passages;
    bool is_free() const { return passages.empty() || !passages.back().delivery.has_more(); }
  };

  // Each returns whether it has done anything.
  Result<bool> begin_there();
  Result<bool> begin_back();
  Result<bool> end_back();
  Result<bool> advance_once();

  const Lanes lanes_;
  const std::vector<std::unique_ptr<BucketCodec>> buckets_;
  std::vector<LaneStep> steps_;  // by bucket
  std::vector<Stage> stages_;    // by bucket
  // The buckets to submit and to send next: both happen in order.
  std::size_t next_submitted_ = 0;
  std::size_t next_sent_ = 0;
  Way there_;
  Way back_;
  std::optional<Error> failure_;
};

}  // namespace tally::exchange
