#include "adapters/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "adapters/cuda/codec/device_codec.h"
#include "adapters/cuda/codec/low_rank.h"
#include "adapters/cuda/kernels.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/units.h"

namespace tally::cuda {
namespace {

using exchange::DeviceBucket;
using exchange::DeviceMemory;
using exchange::GradientChange;

// await() asks again at once for this long, because most waits are short, and then less often.
constexpr auto kSpinTime = std::chrono::milliseconds(2);
constexpr auto kPollInterval = std::chrono::microseconds(50);

// "13.0" for 13000.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// Why no GPU can be used at all.
Error no_gpu(cudaError_t status) {
  (void)cudaGetLastError();
  int driver = 0;
  int needed = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&needed);
  if (status == cudaErrorInsufficientDriver && driver == 0)
    return invalid("no NVIDIA driver is installed: install it, or train with --device cpu");
  if (status == cudaErrorInsufficientDriver)
    return invalid(
        "the NVIDIA driver is too old: it supports CUDA {}, and this build needs {}; install a "
        "newer driver, or build Tally with CUDA {}",
        version_text(driver), version_text(needed), version_text(driver));
  if (status == cudaErrorNoDevice)
    return invalid(
        "no GPU is visible to this process: check nvidia-smi and CUDA_VISIBLE_DEVICES, or train "
        "with --device cpu");
  return system_failure(
      "the GPUs cannot be used ({}: {}): check nvidia-smi, or train with "
      "--device cpu",
      cudaGetErrorName(status), cudaGetErrorString(status));
}

// Why one GPU cannot be opened.
Error cannot_open(const std::string& name, cudaError_t status) {
  (void)cudaGetLastError();
  if (status == cudaErrorMemoryAllocation)
    return make_error(ErrorCode::kExhausted,
                      "{}: its memory is too full for another process; end other programs that "
                      "use it",
                      name);
  if (status == cudaErrorDevicesUnavailable)
    return system_failure(
        "{}: another process has it for itself; end that process, or allow several with "
        "nvidia-smi -c DEFAULT",
        name);
  return system_failure("{}: cannot be used ({}: {}); check nvidia-smi", name,
                        cudaGetErrorName(status), cudaGetErrorString(status));
}

Error failure_of(std::string_view gpu, std::string_view doing, std::string_view why) {
  return system_failure(
      "{}, failed while {} ({}): restart this worker; if that does not help, the kernel log "
      "(dmesg) may name a fault of the GPU after \"Xid\"",
      gpu, doing, why);
}

std::string text_of(cudaError_t status) {
  return fmt::format("{}: {}", cudaGetErrorName(status), cudaGetErrorString(status));
}

std::string timeout_text(Duration waited) {
  return fmt::format("{}: its work was not done after {}", cudaGetErrorName(cudaErrorNotReady),
                     format_duration(waited));
}

// Polls the event: CUDA's own waits have no limit. cudaErrorNotReady if it is not reached by the
// deadline.
cudaError_t poll(cudaEvent_t event, Deadline by) {
  const TimePoint begin = steady_now();
  for (;;) {
    const cudaError_t outcome = cudaEventQuery(event);
    if (outcome != cudaErrorNotReady) return outcome;
    // "Not ready" stays as the last error otherwise, and the next launch would seem to have failed.
    (void)cudaGetLastError();
    const TimePoint now = steady_now();
    if (by.passed(now)) return outcome;
    if (now - begin < kSpinTime)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kPollInterval);
  }
}

// As nvidia-smi -L prints it.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    const bool begins_group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    text += fmt::format("{}{:02x}", begins_group ? "-" : "",
                        static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
  }
  return text;
}

// Whether a GPU has the context that all of this process use. The runtime has no such call. The
// driver numbers the GPUs as the runtime does.
bool has_context(int index) {
  using GetState = int (*)(int gpu, unsigned* flags, int* active);
  static const auto kGetState = [] {
    constexpr const char* kName = "cuDevicePrimaryCtxGetState";
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    constexpr unsigned kSince = 7000;
    (void)cudaGetDriverEntryPointByVersion(kName, &found, kSince, cudaEnableDefault, &result);
#else
    (void)cudaGetDriverEntryPoint(kName, &found, cudaEnableDefault, &result);
#endif
    return reinterpret_cast<GetState>(found);
  }();
  unsigned flags = 0;
  int active = 0;
  return kGetState == nullptr || kGetState(index, &flags, &active) != 0 || active != 0;
}

}  // namespace

CurrentGpu::CurrentGpu(int index) : index_(index) {
  if (cudaGetDevice(&former_) != cudaSuccess) former_ = index_;
  // An error shows in the next call that uses the GPU.
  if (former_ != index_) (void)cudaSetDevice(index_);
}
CurrentGpu::~CurrentGpu() {
  if (former_ != index_ && has_context(former_)) (void)cudaSetDevice(former_);
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(int index, Duration limit) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess)
    return no_gpu(status);
  if (count == 0) return no_gpu(cudaErrorNoDevice);
  if (index < 0 || index >= count)
    return invalid("GPU {}: this process sees {} GPU{}, numbered from 0", index, count,
                   count == 1 ? "" : "s");
  std::unique_ptr<CudaDevice> device(new CudaDevice(index, limit));
  TALLY_TRY(device->initialise());
  return device;
}

Result<void> CudaDevice::initialise() {
  const CurrentGpu current(index_);
  name_ = fmt::format("GPU {}", index_);
  cudaDeviceProp properties;
  cudaError_t status = cudaGetDeviceProperties(&properties, index_);
  if (status != cudaSuccess) return cannot_open(name_, status);
  name_ = fmt::format("{}, GPU {}", properties.name, index_);
  id_ = uuid_text(properties.uuid);
  status = cudaSetDevice(index_);
  if (status == cudaSuccess)
    status = cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, index_);
  // Makes the context, which takes some hundred megabytes.
  if (status == cudaSuccess) status = cudaFree(nullptr);
  if (status != cudaSuccess) return cannot_open(name_, status);
  status = check_kernels();
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction ||
      status == cudaErrorUnsupportedPtxVersion) {
    (void)cudaGetLastError();
    return invalid(
        "{}: this build has no code for GPUs of compute capability {}.{}; build Tally with "
        "-DCMAKE_CUDA_ARCHITECTURES={}{}",
        name_, properties.major, properties.minor, properties.major, properties.minor);
  }
  if (status == cudaSuccess)
    status =
        cudaMallocHost(reinterpret_cast<void**>(&ring_.memory), Ring::kParts * Ring::kPartBytes);
  if (status == cudaSuccess) status = cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
  for (cudaEvent_t& event : ring_.read)
    if (status == cudaSuccess) status = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (status != cudaSuccess) return cannot_open(name_, status);
  return {};
}

CudaDevice::~CudaDevice() {
  const CurrentGpu current(index_);
  // The ring may still be read.
  if (event_ != nullptr && !wait(Deadline::after(limit_))) return;
  for (const cudaEvent_t event : ring_.read)
    if (event != nullptr) (void)cudaEventDestroy(event);
  if (event_ != nullptr) (void)cudaEventDestroy(event_);
  // Copies that are under way go on.
  if (read_stream_ != nullptr) (void)cudaStreamDestroy(read_stream_);
  if (ring_.memory != nullptr) (void)cudaFreeHost(ring_.memory);
  (void)cudaGetLastError();
}

Result<void> CudaDevice::status() const {
  if (failed_) return *failed_;
  return {};
}

Result<void> CudaDevice::check(cudaError_t status, std::string_view doing) {
  if (status == cudaSuccess) return {};
  (void)cudaGetLastError();
  if (failed_) return *failed_;
  if (status == cudaErrorMemoryAllocation)
    return make_error(ErrorCode::kExhausted,
                      "{}: its memory is full ({}); use a smaller model or batch, or end other "
                      "programs that use it",
                      name_, doing);
  return fail(doing, text_of(status));
}

Error CudaDevice::fail(std::string_view doing, std::string_view why) {
  failed_ = failure_of(name_, doing, why);
  *has_failed_ = true;
  return *failed_;
}

Result<void> CudaDevice::await(cudaEvent_t event, Deadline by, std::string_view doing) {
  const TimePoint begin = steady_now();
  const cudaError_t outcome = poll(event, by);
  if (outcome == cudaErrorNotReady) return fail(doing, timeout_text(steady_now() - begin));
  return check(outcome, doing);
}

Result<void> CudaDevice::finish_work(Deadline by, std::string_view doing) {
  TALLY_TRY(check(cudaEventRecord(event_, stream_), doing));
  return await(event_, by, doing);
}

std::shared_ptr<void> CudaDevice::owned(void* data, cudaError_t (*free)(void*)) const {
  return {data, [free, index = index_, has_failed = has_failed_](void* given) {
            if (*has_failed) return;
            const CurrentGpu there(index);
            (void)free(given);
          }};
}

// The new stream goes on after the old one.
void CudaDevice::use_stream(void* stream) {
  const auto next = static_cast<cudaStream_t>(stream);
  if (next == stream_) return;
  const CurrentGpu current(index_);
  // Later calls return an error.
  if (!failed_ && check(cudaEventRecord(event_, stream_), "changing the stream"))
    (void)check(cudaStreamWaitEvent(next, event_, 0), "changing the stream").has_value();
  stream_ = next;
}

Result<DeviceMemory> CudaDevice::allocate(std::size_t bytes) {
  TALLY_TRY(status());
  const CurrentGpu current(index_);
  void* data = nullptr;
  const cudaError_t outcome = cudaMalloc(&data, std::max<std::size_t>(bytes, 1));
  if (outcome == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    std::size_t free = 0;
    std::size_t all = 0;
    TALLY_TRY(check(cudaMemGetInfo(&free, &all), "asking for its free memory"));
    return make_error(ErrorCode::kExhausted,
                      "{}: {} of memory were wanted, and {} of {} are free; use a smaller model or "
                      "batch, or end other programs that use the GPU",
                      name_, format_bytes(bytes), format_bytes(free), format_bytes(all));
  }
  TALLY_TRY(check(outcome, "allocating memory"));
  DeviceMemory memory{
      .data = static_cast<std::byte*>(data), .bytes = bytes, .owner = owned(data, &cudaFree)};
  TALLY_TRY(clear(data, bytes));
  return memory;
}

Result<void> CudaDevice::clear(void* at, std::size_t bytes) {
  if (bytes == 0) return {};
  return enqueue("clearing memory", [&] { return cudaMemsetAsync(at, 0, bytes, stream_); });
}

// The call that copies memory that is not pinned may itself wait for the stream, without a limit.
Result<void> CudaDevice::write(std::byte* to, std::span<const std::byte> from) {
  constexpr std::string_view kDoing = "copying to its memory";
  TALLY_TRY(status());
  if (from.empty()) return {};
  const CurrentGpu current(index_);
  TALLY_TRY(finish_work(Deadline::after(limit_), kDoing));
  TALLY_TRY(check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream_),
                  kDoing));
  return finish_work(Deadline::after(limit_), kDoing);
}

// Goes on to the next part of the ring when the GPU has read it.
Result<void> CudaDevice::next_part() {
  TALLY_TRY(check(cudaEventRecord(ring_.read[ring_.part], stream_), "posting a table"));
  ring_.part = (ring_.part + 1) % Ring::kParts;
  ring_.used = 0;
  // An event that was never recorded is complete.
  return await(ring_.read[ring_.part], Deadline::after(limit_), "posting a table");
}

Result<void> CudaDevice::post(std::byte* to, std::span<const std::byte> from) {
  TALLY_TRY(status());
  constexpr std::size_t kAlignment = 256;
  const CurrentGpu current(index_);
  while (!from.empty()) {
    if (ring_.used == Ring::kPartBytes) TALLY_TRY(next_part());
    const std::size_t bytes = std::min(from.size(), Ring::kPartBytes - ring_.used);
    std::byte* const place = ring_.memory + ring_.part * Ring::kPartBytes + ring_.used;
    std::memcpy(place, from.data(), bytes);
    TALLY_TRY(check(cudaMemcpyAsync(to, place, bytes, cudaMemcpyHostToDevice, stream_),
                    "posting a table"));
    ring_.used =
        std::min(Ring::kPartBytes, (ring_.used + bytes + kAlignment - 1) / kAlignment * kAlignment);
    from = from.subspan(bytes);
    to += bytes;
  }
  return {};
}

Result<void> CudaDevice::read(std::span<std::byte> to, const std::byte* from) {
  const Read one{.to = to, .from = from};
  return read_all({&one, 1});
}

// As in write(), the work so far is waited for first.
Result<void> CudaDevice::read_all(std::span<const Read> reads) {
  constexpr std::string_view kDoing = "copying from its memory";
  TALLY_TRY(status());
  const CurrentGpu current(index_);
  TALLY_TRY(finish_work(Deadline::after(limit_), kDoing));
  for (const auto& [to, from] : reads)
    if (!to.empty())
      TALLY_TRY(check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_),
                      kDoing));
  return finish_work(Deadline::after(limit_), kDoing);
}

// Used by the thread that writes a checkpoint, which must not call the device.
class CudaDevice::PendingReads final : public checkpoint::PendingBytes {
 public:
  PendingReads(const CudaDevice& device, std::shared_ptr<const void> owner)
      : index_(device.index_),
        limit_(device.limit_),
        name_(device.name_),
        has_failed_(device.has_failed_),
        owner_(std::move(owner)) {}
  // The memory may be given back only when the GPU no longer writes to it. A GPU that has not ended
  // by then has failed, and nothing of it is freed.
  ~PendingReads() override {
    const CurrentGpu current(index_);
    if (done_ == nullptr) return;
    if (!wait(Deadline::after(limit_))) {
      *has_failed_ = true;
      return;
    }
    (void)cudaEventDestroy(done_);
  }
  PendingReads(const PendingReads&) = delete;
  PendingReads& operator=(const PendingReads&) = delete;

  Result<void> wait(Deadline by) const override {
    constexpr std::string_view kDoing = "copying a checkpoint from its memory";
    const CurrentGpu current(index_);
    const TimePoint begin = steady_now();
    const cudaError_t outcome = poll(done_, by);
    if (outcome == cudaSuccess) return {};
    (void)cudaGetLastError();
    // The deadline is that of the caller, which may be short.
    if (outcome == cudaErrorNotReady)
      return make_error(ErrorCode::kTimeout, "{}, {}: not done after {}", name_, kDoing,
                        format_duration(steady_now() - begin));
    *has_failed_ = true;
    return failure_of(name_, kDoing, text_of(outcome));
  }

  // Ends the copies that the stream has been given.
  cudaError_t record(cudaStream_t stream) {
    const cudaError_t made = cudaEventCreateWithFlags(&done_, cudaEventDisableTiming);
    return made == cudaSuccess ? cudaEventRecord(done_, stream) : made;
  }
  cudaEvent_t done() const { return done_; }

 private:
  const int index_;
  const Duration limit_;
  const std::string name_;
  const std::shared_ptr<std::atomic<bool>> has_failed_;
  const std::shared_ptr<const void> owner_;
  cudaEvent_t done_ = nullptr;
};

Result<std::shared_ptr<const checkpoint::PendingBytes>> CudaDevice::begin_reads(
    std::span<const Read> reads, std::shared_ptr<const void> owner) {
  constexpr std::string_view kDoing = "beginning to copy a checkpoint from its memory";
  TALLY_TRY(status());
  const CurrentGpu current(index_);
  if (read_stream_ == nullptr)
    TALLY_TRY(check(cudaStreamCreateWithFlags(&read_stream_, cudaStreamNonBlocking), kDoing));
  const auto pending = std::make_shared<PendingReads>(*this, std::move(owner));
  TALLY_TRY(check(cudaEventRecord(event_, stream_), kDoing));
  TALLY_TRY(check(cudaStreamWaitEvent(read_stream_, event_, 0), kDoing));
  Result<void> begun;
  for (const auto& [to, from] : reads)
    if (begun.has_value() && !to.empty())
      begun =
          check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, read_stream_),
                kDoing);
  // Also after an error, so that the memory outlives the copies that have begun.
  TALLY_TRY(check(pending->record(read_stream_), kDoing));
  TALLY_TRY(std::move(begun));
  reads_ = pending;
  return std::shared_ptr<const checkpoint::PendingBytes>(pending);
}

// Reads that no longer exist have ended.
Result<void> CudaDevice::finish_reads() {
  const auto reads = std::exchange(reads_, {}).lock();
  if (!reads) return {};
  TALLY_TRY(status());
  const CurrentGpu current(index_);
  return check(cudaStreamWaitEvent(stream_, reads->done(), 0), "waiting for a checkpoint's copy");
}

Result<void> CudaDevice::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  TALLY_TRY(status());
  if (bytes == 0) return {};
  const CurrentGpu current(index_);
  return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_),
               "copying in its memory");
}

DeviceMemory CudaDevice::allocate_on_host(std::size_t bytes) {
  const CurrentGpu current(index_);
  void* data = nullptr;
  if (failed_ || cudaMallocHost(&data, std::max<std::size_t>(bytes, 1)) != cudaSuccess) {
    (void)cudaGetLastError();
    return exchange::ordinary_memory(bytes);
  }
  return {
      .data = static_cast<std::byte*>(data), .bytes = bytes, .owner = owned(data, &cudaFreeHost)};
}

Result<void> CudaDevice::wait(Deadline by) {
  TALLY_TRY(status());
  const CurrentGpu current(index_);
  return finish_work(by, "waiting for its work");
}

// Calls `kernels`, which launches some.
template <typename Kernels>
Result<void> CudaDevice::launch(std::string_view doing, const Kernels& kernels) {
  return enqueue(doing, [&] {
    kernels();
    return cudaGetLastError();
  });
}

Result<void> CudaDevice::gather(const DeviceBucket& bucket, const GradientChange& change) {
  return launch("gathering gradients", [&] { launch_gather(bucket, change, stream_); });
}

Result<void> CudaDevice::squares(const DeviceBucket& bucket, const GradientChange& change,
                                 exchange::Squares* squares) {
  return launch("summing squares", [&] { launch_squares(bucket, change, squares, stream_); });
}

Result<void> CudaDevice::update(const DeviceBucket& bucket, exchange::UpdateLoop loop,
                                const GradientChange& change) {
  return launch("updating the model", [&] { launch_update(bucket, loop, change, stream_); });
}

Result<void> CudaDevice::sum(DataType type, std::span<const std::byte* const> from, std::byte* to,
                             std::size_t count) {
  std::span<const std::byte* const> rest = from.subspan(std::min(from.size(), kSumSources));
  TALLY_CHECK(std::find(rest.begin(), rest.end(), to) == rest.end());
  return launch("summing arrays", [&] {
    launch_sum(type, from.first(from.size() - rest.size()), to, count, stream_);
    // The sum so far, and some more arrays.
    while (!rest.empty()) {
      const std::size_t more = std::min(rest.size(), kSumSources - 1);
      std::vector<const std::byte*> sources = {to};
      sources.insert(sources.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(more));
      launch_sum(type, sources, to, count, stream_);
      rest = rest.subspan(more);
    }
  });
}

Result<void> CudaDevice::widen(const DeviceBucket& bucket) {
  return launch("copying values", [&] { launch_widen(bucket, stream_); });
}

Result<std::unique_ptr<exchange::DeviceCodec>> CudaDevice::make_codec(const plan::CodecSpec& spec,
                                                                      std::size_t most,
                                                                      const codec::Shape& shape,
                                                                      std::uint32_t* damaged) {
  return make_device_codec(spec, most, shape, damaged, *this);
}

Result<std::unique_ptr<exchange::DeviceLowRank>> CudaDevice::make_low_rank(
    const codec::PowerSgd::Options& options, bool feedback) {
  return make_device_low_rank(options, feedback, *this);
}

}  // namespace tally::cuda
