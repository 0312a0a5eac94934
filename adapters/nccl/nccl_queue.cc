#include "adapters/nccl/nccl_queue.h"

#include <utility>

#include "base/errors.h"

namespace tally::nccl {

using cuda::CurrentGpu;

// Waits for the work of all ranks. The GPU may have done it already when the ranks meet.
class NcclQueue::Finish final : public collective::ExternalOperation {
 public:
  explicit Finish(NcclQueue& queue) : queue_(queue) {}
  Result<bool> advance(bool /*all_entered*/) override { return queue_.advance(); }
  // NcclQueue::finish() aborts NCCL, because a failure may be known before there is an operation.
  void cancel() override {}

 private:
  NcclQueue& queue_;
};

Result<std::unique_ptr<NcclQueue>> NcclQueue::make(Communicator& world, cuda::CudaDevice& device,
                                                   Deadline by) {
  TALLY_TRY(auto group, NcclGroup::make(world, device.index(), by));
  std::unique_ptr<NcclQueue> made(new NcclQueue(device, std::move(group)));
  TALLY_TRY(made->done_, made->event());
  NcclQueue& owner = *made;
  owner.group_->carry_out(
      [&owner](const Request&) -> Result<std::unique_ptr<collective::ExternalOperation>> {
        return std::unique_ptr<collective::ExternalOperation>(std::make_unique<Finish>(owner));
      });
  return made;
}

NcclQueue::~NcclQueue() {
  order_->leave(*this);
  const CurrentGpu current(group_->device());
  for (const Item& item : waiting_) (void)cudaEventDestroy(item.before);
  for (const auto& events : {events_, in_use_})
    for (const cudaEvent_t event : events) (void)cudaEventDestroy(event);
  if (done_ != nullptr) (void)cudaEventDestroy(done_);
}

Result<cudaEvent_t> NcclQueue::event() {
  if (!events_.empty()) {
    const cudaEvent_t event = events_.back();
    events_.pop_back();
    return event;
  }
  const CurrentGpu current(group_->device());
  cudaEvent_t event = nullptr;
  TALLY_TRY(check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event"));
  return event;
}

Result<void> NcclQueue::push(Work work) {
  if (failure_) return *failure_;
  // finish() returns the error, because other ranks can name its cause there.
  if (trouble_) return {};
  const CurrentGpu current(group_->device());
  TALLY_TRY(const cudaEvent_t before, event());
  waiting_.push_back({.work = std::move(work), .before = before});
  order_->push(*this);
  TALLY_TRY(check(cudaEventRecord(before, device_.stream()), "marking the gradients of a bucket"));
  order_->advance();
  return {};
}

Result<bool> NcclQueue::issue_next() {
  const CurrentGpu current(group_->device());
  ncclResult_t code = ncclSuccess;
  if (!is_taking_) {
    Item& item = waiting_.front();
    if (item.work.ready) {
      TALLY_TRY(const bool ready, item.work.ready());
      if (!ready) return false;
    }
    TALLY_TRY(check(cudaStreamWaitEvent(group_->stream(), item.before, 0),
                    "waiting for the gradients of a bucket"));
    code = item.work.issue();
    in_use_.push_back(item.before);
    waiting_.pop_front();
    is_taking_ = true;
  }
  TALLY_TRY(const bool settled, group_->settled(code));
  is_taking_ = !settled;
  return settled;
}

void NcclQueue::note_trouble(const Error& error) {
  trouble_ = error;
  for (const Item& item : waiting_) in_use_.push_back(item.before);
  waiting_.clear();
}

Result<bool> NcclQueue::advance() {
  order_->advance();
  if (trouble_) return *trouble_;
  if (!waiting_.empty() || is_taking_) return false;
  if (!is_marked_) {
    const CurrentGpu current(group_->device());
    TALLY_TRY(check(cudaEventRecord(done_, group_->stream()), "marking the end of sums"));
    is_marked_ = true;
  }
  return group_->passed(done_);
}

Result<void> NcclQueue::finish(const Request& all) {
  if (failure_) return *failure_;
  is_marked_ = false;
  if (const Result<void> outcome = group_->watched().run(all); !outcome.has_value()) {
    order_->abort(outcome.error());
    return outcome;
  }
  events_.insert(events_.end(), in_use_.begin(), in_use_.end());
  in_use_.clear();
  return {};
}

void NcclQueue::begin_abort(const Error& why) {
  if (!failure_) failure_ = why;
  group_->watched().abort(why);
  group_->begin_abort();
}

}  // namespace tally::nccl
