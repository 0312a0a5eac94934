#include "exchange/lane/lane_exchange.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/errors.h"

// A bucket passes the stages kIdle -> kReady (submit) -> kUnderWay (sender_) -> kThere (receiver_).
//   sender_     next_to_send() picks a ready bucket, the same one on all members: the next in
//               order, or with by_priority the one that member 0 picks (lead()) and tells the other
//               members (follow()). It runs first() on lanes_.there and queues the bucket in sent_.
//   receiver_   takes buckets from sent_ and runs second() on lanes_.back.
namespace tally::exchange {

LaneExchange::LaneExchange(Lanes lanes, std::vector<std::unique_ptr<BucketCodec>> buckets,
                           LaneSchedule schedule)
    : lanes_(std::move(lanes)),
      buckets_(std::move(buckets)),
      schedule_(std::move(schedule)),
      steps_(buckets_.size()),
      stages_(buckets_.size(), LaneStage::kIdle) {
  TALLY_CHECK(!schedule_.by_priority || schedule_.bytes.size() == buckets_.size());
  sender_ = std::jthread([this] { send_all(); });
  receiver_ = std::jthread([this] { receive_all(); });
}

LaneExchange::~LaneExchange() {
  bool is_under_way = false;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    is_under_way = std::any_of(stages_.begin(), stages_.end(), [](LaneStage stage) {
      return stage == LaneStage::kReady || stage == LaneStage::kUnderWay;
    });
  }
  changed_.notify_all();
  if (is_under_way) {
    lanes_.there->close();
    lanes_.back->close();
  }
  sender_ = {};
  receiver_ = {};
}

bool LaneExchange::note(const Result<void>& outcome) {
  if (outcome) return true;
  {
    const MutexLock lock(mutex_);
    if (!failure_) failure_ = outcome.error();
  }
  changed_.notify_all();
  return false;
}

std::optional<std::size_t> LaneExchange::next_to_send() {
  if (buckets_.empty()) return std::nullopt;
  if (schedule_.by_priority) return lanes_.there->self() == 0 ? lead() : follow();
  const MutexLock lock(mutex_);
  const std::size_t bucket = next_in_order_;
  while (!is_over() && stages_[bucket] != LaneStage::kReady) changed_.wait(mutex_);
  if (is_over()) return std::nullopt;
  stages_[bucket] = LaneStage::kUnderWay;
  next_in_order_ = (bucket + 1) % buckets_.size();
  return bucket;
}

std::optional<std::size_t> LaneExchange::lead() {
  std::int64_t told = 0;
  {
    const MutexLock lock(mutex_);
    std::optional<std::size_t> next;
    while (!is_over() && !(next = next_by_priority(schedule_, stages_))) changed_.wait(mutex_);
    if (is_over()) return std::nullopt;
    stages_[*next] = LaneStage::kUnderWay;
    told = static_cast<std::int64_t>(*next);
  }
  if (!note(lanes_.there->tell(told))) return std::nullopt;
  return static_cast<std::size_t>(told);
}

// A follower waits for a ready bucket before it waits for the first member. Otherwise its operation
// would time out between steps.
std::optional<std::size_t> LaneExchange::follow() {
  {
    const MutexLock lock(mutex_);
    while (!is_over() &&
           std::find(stages_.begin(), stages_.end(), LaneStage::kReady) == stages_.end())
      changed_.wait(mutex_);
    if (is_over()) return std::nullopt;
  }
  std::int64_t told = 0;
  if (!note(lanes_.there->tell(told))) return std::nullopt;
  const auto bucket = static_cast<std::size_t>(told);
  const MutexLock lock(mutex_);
  if (told < 0 || bucket >= buckets_.size() || stages_[bucket] == LaneStage::kUnderWay) {
    failure_ = make_error(ErrorCode::kCorrupt, lanes_.there->rank_of(0),
                          "bucket {} cannot be sent now", told);
    changed_.notify_all();
    return std::nullopt;
  }
  while (!is_over() && stages_[bucket] != LaneStage::kReady) changed_.wait(mutex_);
  if (is_over()) return std::nullopt;
  stages_[bucket] = LaneStage::kUnderWay;
  return bucket;
}

bool LaneExchange::take_in_hand() {
  const MutexLock lock(mutex_);
  if (is_over()) return false;
  ++working_;
  return true;
}

bool LaneExchange::let_go(const Result<void>& outcome) {
  const bool is_well = note(outcome);
  {
    const MutexLock lock(mutex_);
    --working_;
  }
  changed_.notify_all();
  return is_well;
}

void LaneExchange::send_all() {
  while (const std::optional<std::size_t> bucket = next_to_send()) {
    if (!take_in_hand()) return;
    if (!let_go(buckets_[*bucket]->first(*lanes_.there, steps_[*bucket]))) return;
    {
      const MutexLock lock(mutex_);
      sent_.push_back(*bucket);
    }
    changed_.notify_all();
  }
}

void LaneExchange::receive_all() {
  for (;;) {
    std::size_t bucket = 0;
    {
      const MutexLock lock(mutex_);
      while (!is_over() && sent_.empty()) changed_.wait(mutex_);
      if (is_over()) return;
      bucket = sent_.front();
      sent_.pop_front();
    }
    if (!take_in_hand()) return;
    if (!let_go(buckets_[bucket]->second(*lanes_.back, steps_[bucket]))) return;
    {
      const MutexLock lock(mutex_);
      stages_[bucket] = LaneStage::kThere;
    }
    changed_.notify_all();
  }
}

void LaneExchange::submit(std::size_t bucket, const LaneStep& step) {
  {
    const MutexLock lock(mutex_);
    if (failure_) return;
    TALLY_CHECK(bucket == next_submitted_);
    // The caller has waited for the bucket's last step.
    TALLY_CHECK(stages_[bucket] == LaneStage::kIdle || stages_[bucket] == LaneStage::kThere);
    steps_[bucket] = step;
    stages_[bucket] = LaneStage::kReady;
    next_submitted_ = (bucket + 1) % buckets_.size();
  }
  changed_.notify_all();
}

Result<void> LaneExchange::wait(std::size_t bucket) {
  const MutexLock lock(mutex_);
  while (stages_[bucket] != LaneStage::kThere && !failure_) changed_.wait(mutex_);
  if (!failure_) return {};
  // The other thread may still work on a bucket; it starts no new one.
  while (working_ > 0) changed_.wait(mutex_);
  return *failure_;
}

std::vector<CodecState> LaneExchange::states() {
  {
    const MutexLock lock(mutex_);
    while (failure_ && working_ > 0) changed_.wait(mutex_);
  }
  std::vector<CodecState> all;
  for (const auto& bucket : buckets_)
    for (CodecState& state : bucket->states()) all.push_back(std::move(state));
  return all;
}

}  // namespace tally::exchange
