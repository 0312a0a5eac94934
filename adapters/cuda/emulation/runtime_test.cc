#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <latch>
#include <numeric>
#include <vector>

#include "adapters/cuda/emulation/memory.h"
#include "adapters/cuda/launch_kernel.cuh"

// The emulated GPU: what tests of adapters/cuda count on.
namespace tally::cuda {
namespace {

using emulation::Memory;

// Memory of the GPU for `count` numbers.
class Numbers final {
 public:
  explicit Numbers(std::size_t count) {
    EXPECT_EQ(cudaMalloc(&memory_, count * sizeof(int)), cudaSuccess);
  }
  ~Numbers() { EXPECT_EQ(cudaFree(memory_), cudaSuccess); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  int* data() const { return static_cast<int*>(memory_); }

 private:
  void* memory_ = nullptr;
};

// Work that a stream cannot go beyond before open().
class Gate final {
 public:
  explicit Gate(cudaStream_t stream) {
    const auto wait = [](void* opened) { static_cast<std::latch*>(opened)->wait(); };
    EXPECT_EQ(cudaLaunchHostFunc(stream, wait, &opened_), cudaSuccess);
  }
  void open() { opened_.count_down(); }

 private:
  std::latch opened_{1};
};

cudaStream_t new_stream(unsigned flags) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
  return stream;
}
cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  return event;
}

int number_at(const int* from) {
  int value = 0;
  EXPECT_EQ(cudaMemcpy(&value, from, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
  return value;
}

// Expects an error that stays as the last one.
void expect_refused(cudaError_t found, cudaError_t expected) {
  EXPECT_EQ(found, expected);
  EXPECT_EQ(cudaGetLastError(), expected);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

__global__ void add_index(int* values, int first) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] += first + static_cast<int>(i);
}

TEST(EmulatedStream, WorkIsDoneInItsOrder) {
  const Numbers numbers(64);
  const cudaStream_t stream = new_stream(cudaStreamNonBlocking);
  ASSERT_EQ(cudaMemsetAsync(numbers.data(), 0, 64 * sizeof(int), stream), cudaSuccess);
  for (int round = 0; round < 3; ++round)
    ASSERT_EQ(launch_kernel(add_index, 2, 32, stream, numbers.data(), 100), cudaSuccess);
  std::vector<int> found(64), expected(64);
  ASSERT_EQ(cudaMemcpyAsync(found.data(), numbers.data(), 64 * sizeof(int), cudaMemcpyDeviceToHost,
                            stream),
            cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  for (int i = 0; i < 64; ++i) expected[static_cast<std::size_t>(i)] = 3 * (100 + i);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(EmulatedStream, CallsDoNotWaitForTheirWork) {
  const Numbers numbers(1);
  const cudaStream_t stream = new_stream(cudaStreamNonBlocking);
  const cudaEvent_t event = new_event();
  Gate gate(stream);
  ASSERT_EQ(cudaMemsetAsync(numbers.data(), 1, sizeof(int), stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);  // it has recorded nothing
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  expect_refused(cudaEventQuery(event), cudaErrorNotReady);
  expect_refused(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_NE(number_at(numbers.data()), 0x01010101);
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  EXPECT_EQ(number_at(numbers.data()), 0x01010101);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(EmulatedStream, WaitsForAnEventOfAnotherStream) {
  const Numbers numbers(1);
  const cudaStream_t first = new_stream(cudaStreamNonBlocking);
  const cudaStream_t second = new_stream(cudaStreamNonBlocking);
  const cudaEvent_t event = new_event();
  Gate gate(first);
  ASSERT_EQ(cudaMemsetAsync(numbers.data(), 1, sizeof(int), first), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(numbers.data(), 2, sizeof(int), second), cudaSuccess);
  // What waits is the work before the record.
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  expect_refused(cudaStreamQuery(second), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(number_at(numbers.data()), 0x02020202);
  EXPECT_EQ(cudaStreamDestroy(first), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(second), cudaSuccess);
}

TEST(EmulatedStream, TheDefaultStreamAndBlockingStreamsWaitForEachOther) {
  const Numbers numbers(1);
  const cudaStream_t blocking = new_stream(0);
  {
    Gate gate(blocking);
    ASSERT_EQ(cudaMemsetAsync(numbers.data(), 1, sizeof(int), blocking), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(numbers.data(), 2, sizeof(int), nullptr), cudaSuccess);
    expect_refused(cudaStreamQuery(nullptr), cudaErrorNotReady);
    gate.open();
    EXPECT_EQ(number_at(numbers.data()), 0x02020202);
  }
  Gate gate(nullptr);
  ASSERT_EQ(cudaMemsetAsync(numbers.data(), 3, sizeof(int), nullptr), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(numbers.data(), 4, sizeof(int), blocking), cudaSuccess);
  expect_refused(cudaStreamQuery(blocking), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(blocking), cudaSuccess);
  EXPECT_EQ(number_at(numbers.data()), 0x04040404);
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

TEST(EmulatedStream, HandlesThatWereDestroyedAreRefused) {
  const cudaStream_t stream = new_stream(0);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  expect_refused(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  expect_refused(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  const cudaEvent_t event = new_event();
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  expect_refused(cudaEventRecord(event), cudaErrorInvalidResourceHandle);
  expect_refused(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
}

TEST(EmulatedMemory, CopiesBeyondAnAllocationAreRefused) {
  const Numbers numbers(4);
  int host[5] = {};
  const auto write = [&](int* to, std::size_t bytes) {
    return cudaMemcpy(to, host, bytes, cudaMemcpyHostToDevice);
  };
  EXPECT_EQ(write(numbers.data(), 16), cudaSuccess);
  EXPECT_EQ(write(numbers.data() + 3, 4), cudaSuccess);
  expect_refused(write(numbers.data(), 20), cudaErrorInvalidValue);
  expect_refused(write(numbers.data() + 4, 4), cudaErrorInvalidValue);
  expect_refused(write(host, 4), cudaErrorInvalidValue);
  expect_refused(cudaMemset(numbers.data(), 0, 17), cudaErrorInvalidValue);
  expect_refused(cudaMemcpy(numbers.data(), host, 4, cudaMemcpyDeviceToHost),
                 cudaErrorInvalidValue);
}

TEST(EmulatedMemory, IsFreedOnce) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 100), cudaSuccess);
  expect_refused(cudaFree(static_cast<std::byte*>(memory) + 1), cudaErrorInvalidValue);
  expect_refused(cudaFreeHost(memory), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  expect_refused(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

// Work that was enqueued before cudaFree() may use the memory.
TEST(EmulatedMemory, StaysUntilWorkHasUsedIt) {
  const cudaStream_t stream = new_stream(cudaStreamNonBlocking);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, sizeof(int)), cudaSuccess);
  Gate gate(stream);
  int found = 0;
  ASSERT_EQ(cudaMemsetAsync(memory, 1, sizeof(int), stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(&found, memory, sizeof(int), cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  const cudaEvent_t end = new_event();
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(found, 0x01010101);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
}

TEST(EmulatedMemory, HasAnEnd) {
  std::size_t before = 0, after = 0, all = 0;
  ASSERT_EQ(cudaMemGetInfo(&before, &all), cudaSuccess);
  EXPECT_EQ(all, Memory::kDeviceBytes);
  {
    const Numbers numbers(1000);
    ASSERT_EQ(cudaMemGetInfo(&after, &all), cudaSuccess);
    EXPECT_EQ(after, before - 1000 * sizeof(int));
    void* memory = nullptr;
    expect_refused(cudaMalloc(&memory, before), cudaErrorMemoryAllocation);
  }
  ASSERT_EQ(cudaMemGetInfo(&after, &all), cudaSuccess);
  EXPECT_EQ(after, before);
}

TEST(EmulatedMemory, TellsWhoseAnAddressIs) {
  const auto type_of = [](const void* address) {
    cudaPointerAttributes attributes{};
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, address), cudaSuccess);
    return attributes.type;
  };
  const Numbers numbers(2);
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 8), cudaSuccess);
  const int unknown = 0;
  EXPECT_EQ(type_of(numbers.data() + 1), cudaMemoryTypeDevice);
  EXPECT_EQ(type_of(pinned), cudaMemoryTypeHost);
  EXPECT_EQ(type_of(&unknown), cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(EmulatedMemory, HandlesOpenWhatStillExists) {
  cudaIpcMemHandle_t handle;
  void* opened = nullptr;
  {
    const Numbers numbers(2);
    ASSERT_EQ(cudaIpcGetMemHandle(&handle, numbers.data()), cudaSuccess);
    ASSERT_EQ(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess), cudaSuccess);
    EXPECT_EQ(opened, numbers.data());
    EXPECT_EQ(cudaIpcCloseMemHandle(opened), cudaSuccess);
  }
  expect_refused(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess),
                 cudaErrorInvalidResourceHandle);
}

TEST(EmulatedLaunch, SizesThatNoGpuHasAreRefused) {
  const Numbers numbers(1);
  expect_refused(launch_kernel(add_index, 0, 32, nullptr, numbers.data(), 0),
                 cudaErrorInvalidConfiguration);
  expect_refused(launch_kernel(add_index, 1, 1025, nullptr, numbers.data(), 0),
                 cudaErrorInvalidConfiguration);
  int* values = numbers.data();
  int first = 0;
  void* arguments[] = {&values, &first};
  expect_refused(cudaLaunchCooperativeKernel(add_index, dim3(100), dim3(256), arguments),
                 cudaErrorCooperativeLaunchTooLarge);
}

}  // namespace
}  // namespace tally::cuda
