#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "exchange/lane/bucket_codec.h"
#include "exchange/lane/lane.h"
#include "exchange/lane/lane_schedule.h"

namespace tally::exchange {

// Sends buckets over a lane with two threads, each with a lane of its own. The sender runs
// BucketCodec::first(); the receiver runs second() of buckets that were sent before. Encoding and
// communication so overlap with each other and with the submitting thread.
//
//   submit(0) submit(1) ... submit(n - 1), and wait() for each after its submit; in every step
//
// The memory that a submitted step borrows must stay valid until wait() has returned. After an
// error all unfinished buckets end with it. Threads: submit() and wait() from one thread.
class LaneExchange final {
 public:
  struct Lanes {
    std::unique_ptr<Lane> there;
    std::unique_ptr<Lane> back;
  };
  LaneExchange(Lanes lanes, std::vector<std::unique_ptr<BucketCodec>> buckets,
               LaneSchedule schedule = {});
  // Aborts operations in progress by closing the lanes.
  ~LaneExchange();
  LaneExchange(const LaneExchange&) = delete;
  LaneExchange& operator=(const LaneExchange&) = delete;

  bool takes_sums(std::size_t bucket) const { return buckets_[bucket]->takes_sums(); }
  void submit(std::size_t bucket, const LaneStep& step);
  // Waits until the bucket has the values of all members, within the deadlines of the lanes'
  // operations. After an error no thread uses the step's memory any more.
  Result<void> wait(std::size_t bucket);

  // Call only when no bucket is in progress, or after an error. In the second case the call first
  // waits for the threads' current work, as wait() does.
  std::vector<CodecState> states();
  // For other messages between the members.
  Lane& lane() { return *lanes_.there; }

 private:
  void send_all();
  void receive_all();
  // The bucket to send next, the same on all members; nullopt: stopping or failed.
  std::optional<std::size_t> next_to_send();
  std::optional<std::size_t> lead();
  std::optional<std::size_t> follow();
  bool is_over() const TALLY_REQUIRES(mutex_) { return stopping_ || failure_.has_value(); }
  // Records an error for all buckets. Returns whether `outcome` is a success.
  bool note(const Result<void>& outcome);
  // Called before and after the work on a bucket. False: stopping or failed.
  bool take_in_hand();
  bool let_go(const Result<void>& outcome);

  const Lanes lanes_;
  const std::vector<std::unique_ptr<BucketCodec>> buckets_;
  const LaneSchedule schedule_;
  std::vector<LaneStep> steps_;     // by bucket; read by the thread that works on the bucket
  std::size_t next_submitted_ = 0;  // buckets are submitted in order
  std::size_t next_in_order_ = 0;   // of sender_

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<LaneStage> stages_ TALLY_GUARDED_BY(mutex_);  // by bucket
  std::deque<std::size_t> sent_ TALLY_GUARDED_BY(mutex_);   // first() is complete
  int working_ TALLY_GUARDED_BY(mutex_) = 0;                // threads that work on a bucket
  std::optional<Error> failure_ TALLY_GUARDED_BY(mutex_);
  bool stopping_ TALLY_GUARDED_BY(mutex_) = false;
  std::jthread sender_;
  std::jthread receiver_;
};

}  // namespace tally::exchange
