#include "exchange/lane/lane_pipeline.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/errors.h"

// A bucket passes the stages kIdle -> kReady (submit) -> kUnderWay (first() on lanes_.there, then
// second() on lanes_.back) -> kThere (third()).
//
// All members must start their operations on a lane in the same order. Buckets begin on `there` in
// their order. Operations of one communicator complete in order, so buckets also arrive in that
// order, and begin on `back` in it.
namespace tally::exchange {
namespace {

// Passages of one lane at a time; their operations must fit into the communicator's queue.
constexpr std::size_t kMostPassages = 512;

}  // namespace

LanePipeline::LanePipeline(Lanes lanes, std::vector<std::unique_ptr<BucketCodec>> buckets)
    : lanes_(std::move(lanes)),
      buckets_(std::move(buckets)),
      steps_(buckets_.size()),
      stages_(buckets_.size(), Stage::kIdle) {}

LanePipeline::~LanePipeline() {
  const bool is_under_way = std::any_of(stages_.begin(), stages_.end(), [](Stage stage) {
    return stage == Stage::kReady || stage == Stage::kUnderWay;
  });
  if (!is_under_way) return;
  lanes_.there->close();
  lanes_.back->close();
  fail(make_error(ErrorCode::kClosed, "the exchange of gradients has ended"));
}

// Ends all operations, so that none of them uses the memory of steps any more.
void LanePipeline::fail(const Error& error) {
  if (failure_) return;
  failure_ = error;
  lanes_.there->abort(error);
  lanes_.back->abort(error);
  for (Way* const way : {&there_, &back_}) {
    for (Passage& passage : way->passages) {
      if (passage.delivery.operation) (void)passage.delivery.operation->wait();
      passage.delivery = {};
    }
  }
}

void LanePipeline::submit(std::size_t bucket, const LaneStep& step) {
  if (failure_) return;
  TALLY_CHECK(bucket == next_submitted_);
  // The caller has waited for the bucket's last step.
  TALLY_CHECK(stages_[bucket] == Stage::kIdle || stages_[bucket] == Stage::kThere);
  steps_[bucket] = step;
  stages_[bucket] = Stage::kReady;
  next_submitted_ = (bucket + 1) % buckets_.size();
  advance();
}

Result<bool> LanePipeline::begin_there() {
  if (!there_.passages.empty()) TALLY_TRY(there_.passages.back().delivery.advance());
  if (!there_.is_free() || there_.passages.size() >= kMostPassages) return false;
  const std::size_t bucket = next_sent_;
  if (stages_[bucket] != Stage::kReady) return false;
  next_sent_ = (bucket + 1) % buckets_.size();
  stages_[bucket] = Stage::kUnderWay;
  there_.passages.push_back({.bucket = bucket});
  TALLY_TRY(there_.passages.back().delivery,
            buckets_[bucket]->first(*lanes_.there, steps_[bucket]));
  return true;
}

Result<bool> LanePipeline::begin_back() {
  if (!back_.passages.empty()) TALLY_TRY(back_.passages.back().delivery.advance());
  if (there_.passages.empty() || !back_.is_free() || back_.passages.size() >= kMostPassages)
    return false;
  TALLY_TRY(const bool arrived, there_.passages.front().delivery.advance());
  if (!arrived) return false;
  const std::size_t bucket = there_.passages.front().bucket;
  there_.passages.pop_front();
  back_.passages.push_back({.bucket = bucket});
  TALLY_TRY(back_.passages.back().delivery, buckets_[bucket]->second(*lanes_.back, steps_[bucket]));
  return true;
}

Result<bool> LanePipeline::end_back() {
  if (back_.passages.empty()) return false;
  TALLY_TRY(const bool arrived, back_.passages.front().delivery.advance());
  if (!arrived) return false;
  const std::size_t bucket = back_.passages.front().bucket;
  back_.passages.pop_front();
  TALLY_TRY(buckets_[bucket]->third(*lanes_.back, steps_[bucket]));
  stages_[bucket] = Stage::kThere;
  return true;
}

// New buckets first: their bytes travel while the codecs of earlier buckets run.
Result<bool> LanePipeline::advance_once() {
  TALLY_TRY(const bool began, begin_there());
  TALLY_TRY(const bool went_back, begin_back());
  TALLY_TRY(const bool ended, end_back());
  return began || went_back || ended;
}

void LanePipeline::advance() {
  while (!failure_) {
    const auto moved = advance_once();
    if (!moved) return fail(moved.error());
    if (!*moved) return;
  }
}

// Waits for the oldest operation: on the way back if there is one, else on the way there.
Result<void> LanePipeline::wait(std::size_t bucket) {
  for (advance(); !failure_ && stages_[bucket] != Stage::kThere; advance()) {
    Delivery* oldest = nullptr;
    if (!back_.passages.empty()) {
      oldest = &back_.passages.front().delivery;
    } else if (!there_.passages.empty()) {
      oldest = &there_.passages.front().delivery;
    }
    TALLY_CHECK(oldest != nullptr && oldest->operation);
    // advance() takes the outcome.
    (void)oldest->operation->wait();
  }
  if (failure_) return *failure_;
  return {};
}

std::vector<CodecState> LanePipeline::states() {
  std::vector<CodecState> all;
  for (const auto& bucket : buckets_)
    for (CodecState& state : bucket->states()) all.push_back(std::move(state));
  return all;
}

}  // namespace tally::exchange
