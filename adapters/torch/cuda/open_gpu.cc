#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "adapters/cuda/cuda_device.h"
#include "adapters/cuda/ipc_sum.h"
#include "adapters/torch/device_way.h"
#include "adapters/torch/gpu.h"
#include "adapters/torch/tensors.h"
#include "base/errors.h"
#include "exchange/device/tiered_sum.h"
#ifdef TALLY_WITH_NCCL
#include "adapters/nccl/nccl_communicator.h"
#include "adapters/nccl/nccl_sum.h"
#endif

namespace tally::adapter {
namespace {

class CudaStepGraph final : public StepGraph {
 public:
  explicit CudaStepGraph(c10::DeviceIndex index)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index)) {}

  // libtorch records the current stream of the current device.
  std::shared_ptr<void> enter() override {
    const auto on_device = std::make_shared<c10::cuda::CUDAGuard>(stream_.device_index());
    const c10::cuda::CUDAStream outer = c10::cuda::getCurrentCUDAStream();
    hand_over(outer, stream_);
    c10::cuda::setCurrentCUDAStream(stream_);
    return {nullptr, [this, outer, on_device](void*) {
              c10::cuda::setCurrentCUDAStream(outer);
              try {
                hand_over(stream_, outer);
              } catch (const c10::Error&) {
                // The GPU has failed, and the next call that uses it says so.
              }
            }};
  }

  // The mode concerns this thread only: others may allocate memory meanwhile. They must not draw
  // random numbers on the GPU, because libtorch has one generator for all threads.
  void capture(const std::function<void()>& work) override {
    const c10::DeviceIndex index = stream_.device_index();
    // A captured step allocates its activations from a pool of its own. Without this call the steps
    // before would keep theirs, because libtorch gives no cached memory back during a capture.
    graph_.reset();
    try {
      c10::cuda::CUDACachingAllocator::emptyCache();
    } catch (const c10::Error&) {
      // Another thread of the program captures a step at this moment.
    }
    const c10::MempoolId_t pool = at::cuda::graph_pool_handle();
    at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(index);
    const at::Generator before = generator.clone();
    graph_ = std::make_unique<at::cuda::CUDAGraph>();
    const std::lock_guard alone(generator_mutex());
    try {
      graph_->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      work();
      graph_->capture_end();
    } catch (...) {
      give_up(pool);
      generator.graphsafe_set_state(before);
      throw;
    }
  }

  void replay() override {
    const std::lock_guard alone(generator_mutex());
    graph_->replay();
  }

 private:
  // A replay draws random numbers, too, and fails while another thread captures.
  static std::mutex& generator_mutex() {
    static std::mutex mutex;
    return mutex;
  }
  // Ends a recording, so that the stream can be used again. A recording that the GPU has ended does
  // not come to the point where libtorch takes its memory pool out of use.
  void give_up(const c10::MempoolId_t& pool) {
    namespace allocator = c10::cuda::CUDACachingAllocator;
    try {
      graph_->capture_end();
    } catch (const c10::Error&) {
      try {
        allocator::endAllocateToPool(stream_.device_index(), pool);
        allocator::releasePool(stream_.device_index(), pool);
      } catch (const c10::Error&) {
        // It was out of use.
      }
    }
    graph_.reset();
    (void)cudaGetLastError();
  }
  static void hand_over(const c10::cuda::CUDAStream& from, const c10::cuda::CUDAStream& to) {
    at::cuda::CUDAEvent event;
    event.record(from);
    event.block(to);
  }

  const c10::cuda::CUDAStream stream_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

#ifdef TALLY_WITH_NCCL
constexpr bool kHasNccl = true;
#else
constexpr bool kHasNccl = false;
#endif

// The GPUs of all ranks, with the hosts that they belong to.
Result<DevicePlaces> places_of_all(Communicator& world, exchange::Device& device, Deadline by) {
  // NCCL_HOSTID makes ranks of one GPU ranks of different hosts for NCCL, and so for this choice.
  std::string host;
  if (const char* const set = std::getenv("NCCL_HOSTID"))
    host = set;
  else
    std::ifstream("/proc/sys/kernel/random/boot_id") >> host;
  struct Place {
    std::array<char, 128> gpu{};
    bool has_nccl = kHasNccl;
  };
  Place own;
  // The part that differs between GPUs comes first, because a long name of a host is cut off.
  const std::string text = device.id() + " " + host;
  std::memcpy(own.gpu.data(), text.data(), std::min(text.size(), own.gpu.size() - 1));
  std::vector<Place> all(static_cast<std::size_t>(world.size()));
  TALLY_TRY(world.run({.operation = Operation::kAllgather,
                       .input = &own,
                       .output = all.data(),
                       .count = sizeof(Place),
                       .type = DataType::kUInt8,
                       .by = by}));
  DevicePlaces places;
  for (const Place& place : all) {
    places.gpus.emplace_back(place.gpu.data(), strnlen(place.gpu.data(), place.gpu.size()));
    places.has_nccl = places.has_nccl && place.has_nccl;
  }
  return places;
}

exchange::MakeDeviceSum shared_sums(const std::shared_ptr<cuda::CudaDevice>& device) {
  return [device](Communicator& world, exchange::Device& /*device*/,
                  const std::vector<exchange::DeviceSum::Array>& arrays,
                  Deadline by) { return cuda::ipc_sum(world, *device, arrays, by); };
}

exchange::MakeDeviceSum nccl_sums(
    [[maybe_unused]] const std::shared_ptr<cuda::CudaDevice>& device) {
#ifdef TALLY_WITH_NCCL
  return [device](Communicator& world, exchange::Device& /*device*/,
                  const std::vector<exchange::DeviceSum::Array>& arrays,
                  Deadline by) { return nccl::nccl_sum(world, *device, arrays, by); };
#else
  return {};  // no way leads here
#endif
}

exchange::MakeDeviceGather nccl_gathers(
    [[maybe_unused]] const std::shared_ptr<cuda::CudaDevice>& device) {
#ifdef TALLY_WITH_NCCL
  return [device](Communicator& world, exchange::Device& /*device*/,
                  const std::vector<std::size_t>& capacities,
                  Deadline by) { return nccl::nccl_gather(world, *device, capacities, by); };
#else
  return {};
#endif
}

class CudaGpu final : public Gpu {
 public:
  explicit CudaGpu(std::shared_ptr<cuda::CudaDevice> device, c10::DeviceIndex index)
      : device_(std::move(device)), index_(index) {}

  std::shared_ptr<exchange::Device> device() override { return device_; }
  void follow_stream() override {
    device_->use_stream(c10::cuda::getCurrentCUDAStream(index_).stream());
  }
  std::unique_ptr<StepGraph> make_graph() override {
    return std::make_unique<CudaStepGraph>(index_);
  }

  Result<std::unique_ptr<Communicator>> communicator([[maybe_unused]] Communicator& control,
                                                     [[maybe_unused]] Deadline by) override {
#ifdef TALLY_WITH_NCCL
    TALLY_TRY(auto made, nccl::NcclCommunicator::make(control, index_, by));
    made->follow(c10::cuda::getCurrentCUDAStream(index_).stream());
    return std::unique_ptr<Communicator>(std::move(made));
#else
    return invalid("this build has no support for NCCL: build Tally where nccl.h is found");
#endif
  }

  exchange::MakeDeviceSum sums(DeviceSums wanted, Report on_event) override {
    return [device = device_, wanted, on_event = std::move(on_event)](
               Communicator& world, exchange::Device& /*device*/,
               const std::vector<exchange::DeviceSum::Array>& arrays,
               Deadline by) -> Result<std::unique_ptr<exchange::DeviceSum>> {
      TALLY_TRY(const DevicePlaces places, places_of_all(world, *device, by));
      TALLY_TRY(const DeviceWay way, way_of_sums(wanted, places));
      report(on_event, world, why_slow(wanted, way, places));
      switch (way) {
        case DeviceWay::kHost:
          return exchange::host_sum_maker()(world, *device, arrays, by);
        case DeviceWay::kShared:
          return cuda::ipc_sum(world, *device, arrays, by);
        case DeviceWay::kNccl:
          return nccl_sums(device)(world, *device, arrays, by);
        case DeviceWay::kTiered:
          break;
      }
      return exchange::tiered_sum(world, *device, arrays,
                                  {.group = gpu_group(places, world.rank()),
                                   .inside = shared_sums(device),
                                   .across = nccl_sums(device)},
                                  by);
    };
  }

  exchange::MakeDeviceGather gathers(DeviceSums wanted, Report on_event) override {
    return [device = device_, wanted, on_event = std::move(on_event)](
               Communicator& world, exchange::Device& /*device*/,
               const std::vector<std::size_t>& capacities,
               Deadline by) -> Result<std::unique_ptr<exchange::DeviceGather>> {
      TALLY_TRY(const DevicePlaces places, places_of_all(world, *device, by));
      TALLY_TRY(const DeviceWay way, way_of_gathers(wanted, places));
      report(on_event, world, why_slow(wanted, way, places));
      if (way == DeviceWay::kShared) return cuda::ipc_gather(world, *device, capacities, by);
      if (way == DeviceWay::kNccl) return nccl_gathers(device)(world, *device, capacities, by);
      return exchange::host_gather_maker()(world, *device, capacities, by);
    };
  }

 private:
  static void report(const Report& on_event, Communicator& world, const std::string& sentence) {
    if (!sentence.empty() && world.rank() == 0 && on_event) on_event(sentence);
  }

  const std::shared_ptr<cuda::CudaDevice> device_;
  const c10::DeviceIndex index_;
};

}  // namespace

std::unique_ptr<Gpu> open_gpu(const at::Device& device) {
  if (!device.is_cuda()) return nullptr;
  const c10::DeviceIndex index = device.has_index() ? device.index() : c10::cuda::current_device();
  auto opened = cuda::CudaDevice::open(index);
  if (!opened) throw Failure(opened.error());
  return std::make_unique<CudaGpu>(std::shared_ptr<cuda::CudaDevice>(std::move(*opened)), index);
}

}  // namespace tally::adapter
