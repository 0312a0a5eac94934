#include "adapters/nccl/host_id.h"

#include <fmt/format.h>

#include <functional>
#include <thread>

namespace tally::nccl {

std::string host_id() {
  return fmt::format("thread {}", std::hash<std::thread::id>()(std::this_thread::get_id()));
}

}  // namespace tally::nccl
