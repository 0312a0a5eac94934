#include "adapters/torch/device_way.h"

#include <algorithm>
#include <functional>

#include "base/errors.h"

namespace tally::adapter {
namespace {

bool have_one_gpu(const DevicePlaces& places) {
  return std::adjacent_find(places.gpus.begin(), places.gpus.end(), std::not_equal_to<>()) ==
         places.gpus.end();
}

bool have_a_gpu_each(const DevicePlaces& places) {
  std::vector<std::string> gpus = places.gpus;
  std::sort(gpus.begin(), gpus.end());
  return std::adjacent_find(gpus.begin(), gpus.end()) == gpus.end();
}

}  // namespace

// NCCL itself refuses ranks that share a GPU, and names them.
Result<DeviceWay> way_of_sums(DeviceSums wanted, const DevicePlaces& places) {
  if (wanted == DeviceSums::kHost) return DeviceWay::kHost;
  if (wanted == DeviceSums::kNccl) {
    if (places.has_nccl) return DeviceWay::kNccl;
    return invalid(
        "NCCL is not supported by the builds of all ranks: build Tally where nccl.h is found, or "
        "choose sums through the host");
  }
  if (have_one_gpu(places)) return DeviceWay::kShared;
  if (wanted == DeviceSums::kShared)
    return invalid("sums in shared GPU memory: the ranks have different GPUs; use NCCL");
  if (!places.has_nccl) return DeviceWay::kHost;
  return have_a_gpu_each(places) ? DeviceWay::kNccl : DeviceWay::kTiered;
}

Result<DeviceWay> way_of_gathers(DeviceSums wanted, const DevicePlaces& places) {
  TALLY_TRY(const DeviceWay way, way_of_sums(wanted, places));
  return way == DeviceWay::kTiered ? DeviceWay::kHost : way;
}

std::string why_slow(DeviceSums wanted, DeviceWay way, const DevicePlaces& places) {
  if (way != DeviceWay::kHost || wanted == DeviceSums::kHost) return {};
  if (!places.has_nccl)
    return "gradients of different GPUs travel through host memory: NCCL is not supported by the "
           "builds of all ranks; Tally supports it where nccl.h is found";
  return "encoded gradients and new values travel through host memory: some ranks share a GPU, and "
         "others have another one";
}

int gpu_group(const DevicePlaces& places, Rank rank) {
  const std::string& own = places.gpus[static_cast<std::size_t>(rank)];
  return static_cast<int>(std::find(places.gpus.begin(), places.gpus.end(), own) -
                          places.gpus.begin());
}

}  // namespace tally::adapter
