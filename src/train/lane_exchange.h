#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "train/bucket_codec.h"
#include "train/lane.h"

namespace tally::train {

// Buckets on their way over a lane, by two threads: one is in BucketCodec::first(), the other in second() of an earlier bucket, each
// with a lane of its own. So encoding and sending go on beside each other and beside whoever submits.
//
//   submit(0) submit(1) ... submit(n - 1), and wait() for each at any time after its submit       every step
//
// What a submitted step borrows stays put until wait() has returned. After an error all that is not finished ends with it.
// Threads: submit() and wait() from one.
class LaneExchange final {
 public:
  struct Lanes {
    std::unique_ptr<Lane> there;
    std::unique_ptr<Lane> back;
  };
  LaneExchange(Lanes lanes, std::vector<std::unique_ptr<BucketCodec>> buckets);
  // What is under way is broken off: its lanes are closed then.
  ~LaneExchange();
  LaneExchange(const LaneExchange&) = delete;
  LaneExchange& operator=(const LaneExchange&) = delete;

  void submit(std::size_t bucket, const LaneStep& step);
  // Until the bucket's values are everybody's mean. Ends when the lanes' operations do: by their deadlines.
  Result<void> wait(std::size_t bucket);

  // Between steps.
  std::vector<CodecState> states();

 private:
  // Buckets that have come so far, one step's behind the other's.
  struct Progress {
    std::uint64_t submitted = 0;
    std::uint64_t sent = 0;  // through first()
    std::uint64_t done = 0;
  };
  // Lets buckets through, of which *from have come, in their order, and counts them in *to.
  template <typename Stage>
  void work(std::uint64_t Progress::*from, std::uint64_t Progress::*to, const Stage& stage);

  const Lanes lanes_;
  const std::vector<std::unique_ptr<BucketCodec>> buckets_;
  std::vector<LaneStep> steps_;         // by bucket; whoever has the bucket in hand reads them
  std::vector<std::uint64_t> awaited_;  // by bucket: Progress::done, at the least, once it is there

  Mutex mutex_;
  ConditionVariable changed_;
  Progress progress_ TALLY_GUARDED_BY(mutex_);
  std::optional<Error> failure_ TALLY_GUARDED_BY(mutex_);
  bool stopping_ TALLY_GUARDED_BY(mutex_) = false;
  std::jthread sender_;
  std::jthread receiver_;
};

}  // namespace tally::train
