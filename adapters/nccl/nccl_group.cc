#include "adapters/nccl/nccl_group.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <new>
#include <thread>
#include <utility>

#include "adapters/cuda/cuda_device.h"
#include "adapters/nccl/host_id.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"

// How the communicator is made: all ranks exchange where they are and what they lack, so that a
// rank without NCCL fails all of them at once. Rank 0 spreads the id of the new communicator. NCCL
// then connects the ranks in threads of its own, while an operation of watched() waits for it.
namespace tally::nccl {
namespace {

using cuda::CurrentGpu;

// NCCL sees the end of a connection before Tally's watch has found the process that ended, and
// before ranks have compared what they call.
constexpr Duration kTimeToNameTheCulprit = std::chrono::milliseconds(600);
constexpr Duration kAbortTime = std::chrono::seconds(10);
// After the deadline of a connection: ranks that abort it reach the agreement about it late.
constexpr Duration kAgreementTime = kAbortTime + std::chrono::seconds(5);
constexpr Duration kFarewellTime = std::chrono::seconds(2);
constexpr auto kPollInterval = std::chrono::microseconds(100);

// The first message of a rank to the others.
struct Greeting {
  std::array<char, 128> host{};
  std::array<char, 32> gpu{};
  std::array<char, 352> trouble{};  // the reason why it cannot take part; empty: it can
};

template <std::size_t kSize>
void put(std::array<char, kSize>& to, const std::string& text) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), kSize - 1));
}

// Bytes of peers need not end in zero.
template <std::size_t kSize>
std::string text_of(const std::array<char, kSize>& from) {
  return {from.data(), strnlen(from.data(), kSize)};
}

// `able`: whether this rank can take part.
Result<void> greet(Communicator& control, Result<void> able, int device, Deadline by) {
  Greeting own;
  put(own.host, host_id());
  if (able.has_value())
    able = check(cudaDeviceGetPCIBusId(own.gpu.data(), own.gpu.size(), device),
                 fmt::format("looking for GPU {}", device));
  if (!able.has_value()) put(own.trouble, able.error().message);
  std::vector<Greeting> all(static_cast<std::size_t>(control.size()));
  TALLY_TRY(control.run({.operation = Operation::kAllgather,
                         .input = &own,
                         .output = all.data(),
                         .count = sizeof(Greeting),
                         .type = DataType::kUInt8,
                         .by = by}));
  TALLY_TRY(std::move(able));
  std::vector<GpuPlace> places;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (const std::string trouble = text_of(all[rank].trouble); !trouble.empty())
      return make_error(ErrorCode::kInvalid, static_cast<Rank>(rank), "rank {}: {}", rank, trouble);
    places.push_back({.host = text_of(all[rank].host), .gpu = text_of(all[rank].gpu)});
  }
  return check_one_gpu_each(places);
}

// NCCL connects the ranks one after the other, and a rank that is ready could fail in its first
// operation before another one is. `own` is the outcome of this rank.
Result<void> all_connected(Communicator& control, const Result<void>& own, Deadline by) {
  const std::int32_t failed = own.has_value() ? 0 : 1;
  std::vector<std::int32_t> all(static_cast<std::size_t>(control.size()));
  const Result<void> told = control.allgather(std::span(&failed, 1), std::span(all), {.by = by});
  TALLY_TRY(own);
  TALLY_TRY(told);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != 0)
      return make_error(ErrorCode::kPeerLost, static_cast<Rank>(rank),
                        "connecting by NCCL: rank {} has failed", rank);
  return {};
}

}  // namespace

Error cuda_error(cudaError_t status, std::string_view doing) {
  (void)cudaGetLastError();
  if (status == cudaErrorMemoryAllocation)
    return make_error(ErrorCode::kExhausted,
                      "the GPU of this worker: its memory is full ({}); use a smaller model or "
                      "batch, or end other programs that use it",
                      doing);
  return system_failure(
      "the GPU failed while {}: {} ({}); restart this worker, and look for \"Xid\" in "
      "the kernel log (dmesg)",
      doing, cudaGetErrorString(status), cudaGetErrorName(status));
}

Result<void> check(cudaError_t status, std::string_view doing) {
  if (status == cudaSuccess) return {};
  return cuda_error(status, doing);
}

Result<void> check_one_gpu_each(const std::vector<GpuPlace>& places) {
  for (std::size_t b = 0; b < places.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (places[a] == places[b])
        return make_error(ErrorCode::kInvalid, static_cast<Rank>(b),
                          "ranks {} and {} share GPU {}: NCCL needs a GPU per rank; sums in shared "
                          "GPU memory (the default) need no NCCL",
                          a, b, places[a].gpu);
  return {};
}

// The first operation of watched(): begins when all ranks are here, and waits for NCCL.
class NcclGroup::Init final : public collective::ExternalOperation {
 public:
  explicit Init(NcclGroup& group) : group_(group) {}

  Result<bool> advance(bool all_entered) override {
    if (!all_entered) return false;
    if (begun_) return group_.settled();
    begun_ = true;
    const CurrentGpu current(group_.device_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return group_.settled(group_.nccl_.comm_init_rank_config(&group_.comm_, group_.size_,
                                                             group_.id_, group_.rank_, &config));
  }
  void cancel() override { group_.abort(); }

 private:
  NcclGroup& group_;
  bool begun_ = false;
};

NcclGroup::NcclGroup(const Nccl& nccl, Communicator& control, int device)
    : nccl_(nccl), rank_(control.rank()), size_(control.size()), device_(device) {}

Result<std::unique_ptr<NcclGroup>> NcclGroup::make(Communicator& control, int device, Deadline by) {
  const Result<const Nccl*> nccl = nccl_library();
  std::unique_ptr<NcclGroup> made;
  Result<void> able;
  if (nccl.has_value()) {
    made.reset(new NcclGroup(**nccl, control, device));
    able = made->create_stream();
  } else {
    able = nccl.error();
  }
  TALLY_TRY(greet(control, std::move(able), device, by));
  TALLY_TRY(made->connect(control, by));
  return made;
}

Result<void> NcclGroup::create_stream() {
  const CurrentGpu current(device_);
  // NCCL's kernels get multiprocessors of the GPU before those of the framework do.
  int least = 0;
  int greatest = 0;
  TALLY_TRY(check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities"));
  return check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
               "creating a stream");
}

Result<void> NcclGroup::connect(Communicator& control, Deadline by) {
  // Rank 0 spreads the id, or the reason why there is none.
  struct Offer {
    ncclUniqueId id;
    std::array<char, 256> trouble;
  };
  Offer offer{};
  if (rank_ == 0) {
    const ncclResult_t code = nccl_.get_unique_id(&offer.id);
    if (code != ncclSuccess)
      put(offer.trouble, fmt::format("NCCL cannot listen for other ranks: {} ({}); "
                                     "NCCL_SOCKET_IFNAME names the network to use",
                                     nccl_.get_error_string(code), nccl_.get_last_error(nullptr)));
  }
  TALLY_TRY(control.run({.operation = Operation::kBroadcast,
                         .input = &offer,
                         .output = &offer,
                         .count = sizeof(Offer),
                         .type = DataType::kUInt8,
                         .root = 0,
                         .by = by}));
  if (const std::string trouble = text_of(offer.trouble); !trouble.empty())
    return make_error(rank_ == 0 ? ErrorCode::kSystem : ErrorCode::kPeerLost, 0, "rank 0: {}",
                      trouble);
  id_ = offer.id;
  TALLY_TRY(host_, control.split(0, rank_, by));
  TALLY_TRY(watched_, collective::carried_out_by(
                          [this](const Request& request) { return make_(request); }, control, by));
  make_ = [this](const Request&) -> Result<std::unique_ptr<collective::ExternalOperation>> {
    return std::unique_ptr<collective::ExternalOperation>(std::make_unique<Init>(*this));
  };
  Result<void> connected = watched_->run({.operation = Operation::kBroadcast, .by = by});
  make_ = nullptr;
  if (!connected.has_value()) {
    Error& error = connected.error();
    error.message = "connecting by NCCL: " + error.message;
    if (error.code == ErrorCode::kTimeout)
      error.message +=
          "; NCCL_SOCKET_IFNAME names the network to use, and NCCL_DEBUG=INFO shows what NCCL does";
  }
  return all_connected(control, connected, deadline_after(by.when(), kAgreementTime));
}

// A rank may have done its part of the last operation while others still receive its data. The
// operations of host() before this one need not end.
void NcclGroup::wait_for_others() {
  if (host_ == nullptr) return;
  const Deadline by = Deadline::after(kFarewellTime);
  const Handle met = host_->start({.operation = Operation::kBarrier, .by = by});
  while (!met.poll() && !by.passed(steady_now())) std::this_thread::sleep_for(kPollInterval);
}

NcclGroup::~NcclGroup() {
  wait_for_others();
  // Ends the thread that may be at an operation, before NCCL is used here.
  watched_.reset();
  begin_end();
  await_end();
  host_.reset();
  // Never freed.
  if (is_stuck_) (void)new (std::nothrow) auto(std::move(kept_));
  const CurrentGpu current(device_);
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}

Result<bool> NcclGroup::held() const {
  if (steady_now() - trouble_since_ < kTimeToNameTheCulprit) return false;
  return *trouble_;
}

Result<bool> NcclGroup::settled(ncclResult_t code) {
  if (trouble_) return held();
  if (comm_ == nullptr && code == ncclSuccess)
    return make_error(ErrorCode::kClosed, "NCCL's communicator has ended");
  ncclResult_t state = code;
  if (code == ncclSuccess || code == ncclInProgress) {
    const ncclResult_t asked = nccl_.comm_get_async_error(comm_, &state);
    if (asked != ncclSuccess) state = asked;
  }
  if (state == ncclInProgress) return false;
  if (state == ncclSuccess) return true;
  // A remote error is one of another rank, which NCCL does not name.
  trouble_ = make_error(state == ncclRemoteError ? ErrorCode::kPeerLost : ErrorCode::kSystem,
                        "NCCL: {} ({}); set NCCL_DEBUG=INFO for details",
                        nccl_.get_error_string(state), nccl_.get_last_error(comm_));
  trouble_since_ = steady_now();
  return false;
}

Result<bool> NcclGroup::passed(cudaEvent_t event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaSuccess) return true;
  if (status != cudaErrorNotReady) return cuda_error(status, "waiting for NCCL");
  TALLY_TRY(settled());
  return false;
}

void NcclGroup::begin_abort() {
  // The other ranks then do not wait for this one in their destructors.
  host_->abort({.code = ErrorCode::kClosed, .message = "NCCL's communicator has ended"});
  begin_end();
}

void NcclGroup::abort() {
  begin_abort();
  await_end();
}

// A thread of its own bounds the time: NCCL joins threads and frees memory in this call.
void NcclGroup::begin_end() {
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  std::packaged_task<void()> task([comm, device = device_, comm_abort = nccl_.comm_abort] {
    const CurrentGpu current(device);
    (void)comm_abort(comm);
  });
  aborted_ = task.get_future();
  end_by_ = Deadline::after(kAbortTime);
  std::thread(std::move(task)).detach();
}

void NcclGroup::await_end() {
  if (!aborted_.valid()) return;
  const std::future<void> aborted = std::exchange(aborted_, {});
  is_stuck_ = aborted.wait_for(end_by_.remaining(steady_now())) != std::future_status::ready;
  const CurrentGpu current(device_);
  // The call may return before the kernels have seen that they are to end.
  while (!is_stuck_ && cudaStreamQuery(stream_) == cudaErrorNotReady) {
    is_stuck_ = end_by_.passed(steady_now());
    std::this_thread::sleep_for(kPollInterval);
  }
  if (is_stuck_)
    log_error(fmt::format(
        "rank {}: NCCL has not ended its operations {} s after ncclCommAbort(); "
        "GPU {} may stay busy until this process ends",
        rank_, std::chrono::duration_cast<std::chrono::seconds>(kAbortTime).count(), device_));
}

}  // namespace tally::nccl
