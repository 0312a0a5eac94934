#include "adapters/torch/gpu_event.h"

#include <chrono>
#include <thread>

#include "adapters/torch/tensors.h"
#include "base/units.h"

namespace tally::adapter {

void wait_for(const c10::Event& event) {
  wait_until([&event] { return event.query(); }, std::chrono::minutes(5));
}

void wait_until(const std::function<bool()>& is_reached, Duration limit) {
  const TimePoint begin = steady_now();
  while (!is_reached()) {
    if (steady_now() - begin > limit)
      refuse(ErrorCode::kTimeout,
             fmt::format("the GPU does not answer: its work was not done after {}; restart this "
                         "worker, and look for \"Xid\" in the kernel log (dmesg)",
                         format_duration(limit)));
    std::this_thread::yield();
  }
}

}  // namespace tally::adapter
