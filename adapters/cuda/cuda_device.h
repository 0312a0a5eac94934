#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "exchange/device/device.h"

namespace tally::cuda {

// Makes a GPU the current one of the calling thread, and the former one again at the end if that
// has a context: cudaSetDevice() would make one, which takes some hundred megabytes there.
class CurrentGpu final {
 public:
  explicit CurrentGpu(int index);
  ~CurrentGpu();
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;

 private:
  const int index_;
  int former_ = 0;
};

// A CUDA GPU with the kernels of kernels.h. Work runs on the framework's stream; before the first
// use_stream() on the default stream. A framework may have a CUDA runtime of its own: both use the
// primary context of the GPU.
class CudaDevice final : public exchange::Device {
 public:
  // The GPU with this number, as CUDA_VISIBLE_DEVICES orders them. kInvalid if there is no such
  // GPU, if its driver is too old, or if this build has no code for it; kExhausted if its memory is
  // full. `limit`: how long calls without a deadline wait for the GPU.
  static Result<std::unique_ptr<CudaDevice>> open(int index, Duration limit = kLimit);
  static constexpr Duration kLimit = std::chrono::minutes(5);
  // Waits for the work so far. What a GPU that has failed was given is not freed: CUDA could wait
  // for ever.
  ~CudaDevice() override;

  int index() const { return index_; }
  int multiprocessors() const { return multiprocessors_; }
  // Work that others give this stream is in the order of the device's own. The reference is valid
  // as long as the device, and follows use_stream().
  const cudaStream_t& stream() const { return stream_; }
  // The outcome of a CUDA call on this GPU: "NVIDIA H200, GPU 0, failed while `doing`: ...". After
  // any error but full memory, every later call of the device returns that error.
  Result<void> check(cudaError_t status, std::string_view doing);
  // Gives stream() some work: `start` makes calls of CUDA on this GPU, and returns their outcome.
  template <typename Start>
  Result<void> enqueue(std::string_view doing, const Start& start) {
    TALLY_TRY(status());
    const CurrentGpu current(index_);
    // An error that others have left there is not that of a launch.
    (void)cudaGetLastError();
    return check(start(), doing);
  }
  // Writes zeros.
  Result<void> clear(void* at, std::size_t bytes);
  // Frees `data` with its last owner by a call of CUDA, unless the GPU has failed.
  std::shared_ptr<void> owned(void* data, cudaError_t (*free)(void*)) const;

  std::string name() const override { return name_; }
  std::string id() const override { return id_; }
  // The stream that was used so far must still exist.
  void use_stream(void* stream) override;

  Result<exchange::DeviceMemory> allocate(std::size_t bytes) override;
  Result<void> write(std::byte* to, std::span<const std::byte> from) override;
  Result<void> post(std::byte* to, std::span<const std::byte> from) override;
  Result<void> read(std::span<std::byte> to, const std::byte* from) override;
  Result<void> copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  Result<void> read_all(std::span<const Read> reads) override;
  // On a stream of its own, after the work so far. The result outlives the device.
  Result<std::shared_ptr<const checkpoint::PendingBytes>> begin_reads(
      std::span<const Read> reads, std::shared_ptr<const void> owner) override;
  Result<void> finish_reads() override;
  // Not pinned if the host has not enough memory for that.
  exchange::DeviceMemory allocate_on_host(std::size_t bytes) override;
  Result<void> wait(Deadline by) override;

  Result<void> gather(const exchange::DeviceBucket& bucket,
                      const exchange::GradientChange& change) override;
  Result<void> squares(const exchange::DeviceBucket& bucket, const exchange::GradientChange& change,
                       exchange::Squares* squares) override;
  Result<void> update(const exchange::DeviceBucket& bucket, exchange::UpdateLoop loop,
                      const exchange::GradientChange& change) override;
  // `to` may be one of the first kSumSources arrays.
  Result<void> sum(DataType type, std::span<const std::byte* const> from, std::byte* to,
                   std::size_t count) override;
  Result<void> widen(const exchange::DeviceBucket& bucket) override;
  Result<std::unique_ptr<exchange::DeviceCodec>> make_codec(const plan::CodecSpec& spec,
                                                            std::size_t most,
                                                            const codec::Shape& shape,
                                                            std::uint32_t* damaged) override;
  Result<std::unique_ptr<exchange::DeviceLowRank>> make_low_rank(
      const codec::PowerSgd::Options& options, bool feedback) override;

 private:
  class PendingReads;
  // A ring of pinned memory. What post() has copied there lies in place until the GPU has read it.
  struct Ring {
    static constexpr std::size_t kParts = 4;
    static constexpr std::size_t kPartBytes = std::size_t{256} << 10;
    std::byte* memory = nullptr;
    std::array<cudaEvent_t, kParts> read{};  // recorded when a part is full
    std::size_t part = 0;
    std::size_t used = 0;  // bytes of the part
  };

  CudaDevice(int index, Duration limit) : index_(index), limit_(limit) {}
  Result<void> initialise();
  Result<void> status() const;
  Error fail(std::string_view doing, std::string_view why);
  Result<void> await(cudaEvent_t event, Deadline by, std::string_view doing);
  Result<void> finish_work(Deadline by, std::string_view doing);
  Result<void> next_part();
  template <typename Kernels>
  Result<void> launch(std::string_view doing, const Kernels& kernels);

  const int index_;
  const Duration limit_;
  int multiprocessors_ = 0;
  std::string name_;
  std::string id_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
  cudaStream_t read_stream_ = nullptr;       // of begin_reads()
  std::weak_ptr<const PendingReads> reads_;  // the last ones, until finish_reads()
  Ring ring_;
  std::optional<Error> failed_;
  // Shared with the owners of memory.
  const std::shared_ptr<std::atomic<bool>> has_failed_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace tally::cuda
