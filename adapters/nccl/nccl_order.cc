#include "adapters/nccl/nccl_order.h"

#include <map>

#include "adapters/nccl/nccl_queue.h"
#include "base/mutex.h"

namespace tally::nccl {
namespace {

struct Orders {
  Mutex mutex;
  std::map<const cuda::CudaDevice*, std::weak_ptr<NcclOrder>> of_device TALLY_GUARDED_BY(mutex);
};

Orders& orders() {
  static Orders all;
  return all;
}

}  // namespace

std::shared_ptr<NcclOrder> NcclOrder::of(const cuda::CudaDevice& device) {
  Orders& all = orders();
  const MutexLock lock(all.mutex);
  std::erase_if(all.of_device, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<NcclOrder>& known = all.of_device[&device];
  std::shared_ptr<NcclOrder> order = known.lock();
  if (order == nullptr) {
    order = std::make_shared<NcclOrder>();
    known = order;
  }
  return order;
}

void NcclOrder::abort(const Error& why) {
  turns_.clear();
  for (NcclQueue* const queue : queues_) queue->begin_abort(why);
  for (NcclQueue* const queue : queues_) queue->group().abort();
}

void NcclOrder::advance() {
  while (!turns_.empty()) {
    NcclQueue& queue = *turns_.front();
    const Result<bool> taken = queue.issue_next();
    if (!taken.has_value()) {
      queue.note_trouble(taken.error());
      remove(queue);
    } else if (*taken) {
      turns_.pop_front();
    } else {
      return;
    }
  }
}

}  // namespace tally::nccl
