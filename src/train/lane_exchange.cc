#include "train/lane_exchange.h"

#include <utility>

#include "base/check.h"

namespace tally::train {

LaneExchange::LaneExchange(Lanes lanes, std::vector<std::unique_ptr<BucketCodec>> buckets)
    : lanes_(std::move(lanes)),
      buckets_(std::move(buckets)),
      steps_(buckets_.size()),
      awaited_(buckets_.size()) {
  sender_ = std::jthread([this] {
    work(&Progress::submitted, &Progress::sent, [this](std::size_t bucket) {
      return buckets_[bucket]->first(*lanes_.there, steps_[bucket]);
    });
  });
  receiver_ = std::jthread([this] {
    work(&Progress::sent, &Progress::done, [this](std::size_t bucket) {
      return buckets_[bucket]->second(*lanes_.back, steps_[bucket]);
    });
  });
}

LaneExchange::~LaneExchange() {
  bool is_under_way = false;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    is_under_way = progress_.done != progress_.submitted;
  }
  changed_.notify_all();
  if (is_under_way) {
    lanes_.there->close();
    lanes_.back->close();
  }
  sender_ = {};
  receiver_ = {};
}

template <typename Stage>
void LaneExchange::work(std::uint64_t Progress::*from, std::uint64_t Progress::*to,
                        const Stage& stage) {
  for (;;) {
    std::size_t bucket = 0;
    {
      const MutexLock lock(mutex_);
      while (!stopping_ && !failure_ && progress_.*from == progress_.*to) changed_.wait(mutex_);
      if (stopping_ || failure_) return;
      bucket = static_cast<std::size_t>(progress_.*to % buckets_.size());
    }
    const Result<void> outcome = stage(bucket);
    {
      const MutexLock lock(mutex_);
      if (outcome) {
        ++(progress_.*to);
      } else if (!failure_) {
        failure_ = outcome.error();
      }
    }
    changed_.notify_all();
  }
}

void LaneExchange::submit(std::size_t bucket, const LaneStep& step) {
  {
    const MutexLock lock(mutex_);
    if (failure_) return;
    TALLY_CHECK(bucket == progress_.submitted % buckets_.size());
    // The bucket's last step has been waited for.
    TALLY_CHECK(progress_.done >= awaited_[bucket]);
    steps_[bucket] = step;
    awaited_[bucket] = ++progress_.submitted;
  }
  changed_.notify_all();
}

Result<void> LaneExchange::wait(std::size_t bucket) {
  const MutexLock lock(mutex_);
  while (progress_.done < awaited_[bucket] && !failure_) changed_.wait(mutex_);
  if (failure_) return *failure_;
  return {};
}

std::vector<CodecState> LaneExchange::states() {
  std::vector<CodecState> all;
  for (const auto& bucket : buckets_)
    for (CodecState& state : bucket->states()) all.push_back(std::move(state));
  return all;
}

}  // namespace tally::train
