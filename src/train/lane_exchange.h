#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "train/bucket_codec.h"
#include "train/lane.h"
#include "train/lane_schedule.h"

namespace tally::train {

// Buckets on their way over a lane, by two threads: one is in BucketCodec::first(), the other in
// second() of a bucket that was sent before, each with a lane of its own. So encoding and sending
// go on beside each other and beside whoever submits.
//
//   submit(0) submit(1) ... submit(n - 1), and wait() for each at any time after its submit every
//   step
//
// What a submitted step borrows stays put until wait() has returned. After an error all that is not
// finished ends with it. Threads: submit() and wait() from one.
class LaneExchange final {
 public:
  struct Lanes {
    std::unique_ptr<Lane> there;
    std::unique_ptr<Lane> back;
  };
  LaneExchange(Lanes lanes, std::vector<std::unique_ptr<BucketCodec>> buckets,
               LaneSchedule schedule = {});
  // What is under way is broken off: its lanes are closed then.
  ~LaneExchange();
  LaneExchange(const LaneExchange&) = delete;
  LaneExchange& operator=(const LaneExchange&) = delete;

  bool takes_sums(std::size_t bucket) const { return buckets_[bucket]->takes_sums(); }
  void submit(std::size_t bucket, const LaneStep& step);
  // Until the bucket's values are everybody's. Ends when the lanes' operations do: by their
  // deadlines. With an error nobody works on the step's memory any more.
  Result<void> wait(std::size_t bucket);

  // While nothing is under way, or after an error: then what is in hand ends first, as wait() says.
  std::vector<CodecState> states();
  // For whoever has something to say beside buckets.
  Lane& lane() { return *lanes_.there; }

 private:
  void send_all();
  void receive_all();
  // The bucket to send next, the same on all members; none: it is over.
  std::optional<std::size_t> next_to_send();
  std::optional<std::size_t> lead();
  std::optional<std::size_t> follow();
  bool is_over() const TALLY_REQUIRES(mutex_) { return stopping_ || failure_.has_value(); }
  // Whether it is well; an error is everybody's.
  bool note(const Result<void>& outcome);
  // Around the work on a bucket. False: it is over.
  bool take_in_hand();
  bool let_go(const Result<void>& outcome);

  const Lanes lanes_;
  const std::vector<std::unique_ptr<BucketCodec>> buckets_;
  const LaneSchedule schedule_;
  std::vector<LaneStep> steps_;     // by bucket; whoever has the bucket in hand reads them
  std::size_t next_submitted_ = 0;  // in the order of buckets
  std::size_t next_in_order_ = 0;   // the sender's

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<LaneStage> stages_ TALLY_GUARDED_BY(mutex_);  // by bucket
  std::deque<std::size_t> sent_ TALLY_GUARDED_BY(mutex_);   // through first()
  int working_ TALLY_GUARDED_BY(mutex_) = 0;                // threads that have a bucket in hand
  std::optional<Error> failure_ TALLY_GUARDED_BY(mutex_);
  bool stopping_ TALLY_GUARDED_BY(mutex_) = false;
  std::jthread sender_;
  std::jthread receiver_;
};

}  // namespace tally::train
