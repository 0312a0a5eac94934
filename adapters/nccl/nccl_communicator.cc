#include "adapters/nccl/nccl_communicator.h"

#include <chrono>
#include <thread>
#include <utility>

#include "adapters/cuda/cuda_device.h"
#include "adapters/nccl/nccl_operation.h"
#include "base/clock.h"
#include "base/errors.h"
#include "collective/handle.h"
#include "collective/request.h"
#include "collective/shared_buffer.h"

namespace tally::nccl {
namespace {

using collective::is_point;
using cuda::CurrentGpu;

constexpr auto kCopyPollInterval = std::chrono::microseconds(50);
// Of waits for the GPU without a deadline of the caller.
constexpr auto kCopyTimeout = std::chrono::minutes(5);

// The other codes refuse one request, and leave the communicator as it was.
bool ends_communicator(const Error& error) {
  return error.code != ErrorCode::kInvalid && error.code != ErrorCode::kExhausted &&
         error.code != ErrorCode::kClosed;
}

}  // namespace

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::make(Communicator& control, int device,
                                                                 Deadline by) {
  TALLY_TRY(auto group, NcclGroup::make(control, device, by));
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(std::move(group)));
  TALLY_TRY(made->create_events());
  NcclGroup& owned = *made->group_;
  owned.carry_out([&owned, done = made->done_](const Request& request)
                      -> Result<std::unique_ptr<collective::ExternalOperation>> {
    TALLY_TRY(check_memory(request, owned));
    return std::unique_ptr<collective::ExternalOperation>(
        std::make_unique<NcclOperation>(owned, request, done));
  });
  return made;
}

Result<void> NcclCommunicator::create_events() {
  const CurrentGpu current(device_);
  for (cudaEvent_t* const event : {&issued_, &done_})
    TALLY_TRY(check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event"));
  return check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "creating a stream");
}

NcclCommunicator::~NcclCommunicator() {
  group_.reset();  // ends the threads that use what follows
  const CurrentGpu current(device_);
  for (const cudaEvent_t event : {issued_, done_})
    if (event != nullptr) (void)cudaEventDestroy(event);
  if (copies_ != nullptr) (void)cudaStreamDestroy(copies_);
}

void NcclCommunicator::note(const Result<void>& outcome) {
  if (outcome.has_value() || !ends_communicator(outcome.error())) return;
  const MutexLock lock(mutex_);
  if (!failure_) failure_ = outcome.error();
}

// A failure of a message that has arrived is told when the next operation begins.
Result<void> NcclCommunicator::admit(const Request& request) {
  std::optional<Error> failure;
  {
    const MutexLock lock(mutex_);
    failure = failure_;
  }
  if (failure) {
    abort(*failure);
    return *failure;
  }
  return collective::check(request, rank(), size());
}

// Lets `stream` wait for the work that the followed stream has now.
Result<void> NcclCommunicator::follow_work(cudaStream_t stream) {
  const CurrentGpu current(device_);
  TALLY_TRY(check(cudaEventRecord(issued_, followed_), "recording the work before an operation"));
  return check(cudaStreamWaitEvent(stream, issued_, 0), "waiting for earlier work");
}

// Tells the other ranks of a failure of this rank before an operation, in which they would wait.
Result<void> NcclCommunicator::told(Result<void> outcome) {
  if (outcome.has_value() || outcome.error().code == ErrorCode::kInvalid) return outcome;
  outcome = collective::with_own_rank(outcome.error(), rank());
  note(outcome);
  abort(outcome.error());
  return outcome;
}

Result<void> NcclCommunicator::run(const Request& request) {
  TALLY_TRY(admit(request));
  if (is_point(request)) {
    TALLY_TRY(Handle handle, start_message(request));
    return handle.wait();
  }
  TALLY_TRY(told(follow_work(group_->stream())));
  Result<void> outcome = group_->watched().run(request);
  note(outcome);
  return outcome;
}

Handle NcclCommunicator::start(const Request& request) {
  if (Result<void> admitted = admit(request); !admitted.has_value())
    return ended_handle(std::move(admitted));
  if (is_point(request)) {
    Result<Handle> started = start_message(request);
    return started.has_value() ? *started : ended_handle(started.error());
  }
  if (Result<void> followed = told(follow_work(group_->stream())); !followed.has_value())
    return ended_handle(std::move(followed));
  Handle handle = group_->watched().start(request);
  handle.then([this](const Result<void>& outcome) { note(outcome); });
  return handle;
}

Result<void> NcclCommunicator::follow_work_by_copies() {
  const MutexLock lock(copies_mutex_);
  return follow_work(copies_);
}

// False: earlier work of the GPU is not done.
Result<bool> NcclCommunicator::try_copy(void* to, const void* from, std::size_t bytes,
                                        cudaMemcpyKind kind) {
  const MutexLock lock(copies_mutex_);
  const CurrentGpu current(device_);
  const cudaError_t before = cudaStreamQuery(copies_);
  if (before == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  TALLY_TRY(check(before, "waiting for the work before a message"));
  TALLY_TRY(check(cudaMemcpyAsync(to, from, bytes, kind, copies_), "copying a message"));
  TALLY_TRY(check(cudaStreamSynchronize(copies_), "copying a message"));
  return true;
}

// A copy that has begun uses its memory until it is done. It begins when nothing can delay it.
Result<void> NcclCommunicator::copy(void* to, const void* from, std::size_t bytes,
                                    cudaMemcpyKind kind, Deadline by) {
  if (bytes == 0) return {};
  for (;;) {
    TALLY_TRY(const bool is_copied, try_copy(to, from, bytes, kind));
    if (is_copied) return {};
    if (by.passed(steady_now()))
      return make_error(ErrorCode::kTimeout,
                        "deadline passed before a message: GPU {} has not done its earlier work",
                        device_);
    std::this_thread::sleep_for(kCopyPollInterval);
  }
}

// A send copies its data before it returns. A received message is copied to the GPU by the thread
// that completes the receive.
Result<Handle> NcclCommunicator::start_message(const Request& request) {
  TALLY_TRY(told(check_memory(request, *group_)));
  TALLY_TRY(told(follow_work_by_copies()));
  const Deadline by = request.by.value_or(Deadline::after(kCopyTimeout));
  const std::size_t bytes = request.count * size_of(request.type);
  // Shared with the callback of the operation, which ends last.
  const auto memory = std::make_shared<std::vector<std::byte>>(bytes);
  const bool sends = request.operation == Operation::kSend;
  Request message = request;
  message.input = memory->data();
  message.output = memory->data();
  if (sends)
    TALLY_TRY(told(copy(memory->data(), request.input, bytes, cudaMemcpyDeviceToHost, by)));
  const auto state = std::make_shared<Handle::State>();
  group_->host().start(message).then(
      [this, memory, state, sends, by, to = request.output](const Result<void>& arrived) {
        Result<void> outcome = arrived;
        if (outcome.has_value() && !sends)
          outcome = copy(to, memory->data(), memory->size(), cudaMemcpyHostToDevice, by);
        note(outcome);
        state->complete(std::move(outcome));
      });
  return Handle(state);
}

Result<void> NcclCommunicator::clear(void* data, std::size_t bytes) {
  constexpr std::string_view kDoing = "clearing memory";
  const MutexLock lock(copies_mutex_);
  TALLY_TRY(check(cudaMemsetAsync(data, 0, bytes, copies_), kDoing));
  const Deadline by = Deadline::after(kCopyTimeout);
  for (;;) {
    const cudaError_t status = cudaStreamQuery(copies_);
    if (status != cudaErrorNotReady) return check(status, kDoing);
    (void)cudaGetLastError();
    if (by.passed(steady_now())) return cuda_error(status, kDoing);
    std::this_thread::sleep_for(kCopyPollInterval);
  }
}

Result<SharedBuffer> NcclCommunicator::allocate(std::size_t bytes) {
  const CurrentGpu current(device_);
  void* data = nullptr;
  if (const cudaError_t status = cudaMalloc(&data, bytes + 1); status != cudaSuccess) {
    (void)cudaGetLastError();
    return make_error(ErrorCode::kExhausted, "{} bytes of memory of GPU {}: {}", bytes, device_,
                      cudaGetErrorString(status));
  }
  std::shared_ptr<const void> memory(data, [](void* allocated) { (void)cudaFree(allocated); });
  TALLY_TRY(clear(data, bytes));
  return SharedBuffer::Owner::from_outside(std::move(memory), static_cast<std::byte*>(data), bytes);
}

// Ranks see no memory of each other.
Result<std::vector<std::span<std::byte>>> NcclCommunicator::share(const SharedBuffer& buffer,
                                                                  Deadline /*by*/) {
  std::vector<std::span<std::byte>> views(static_cast<std::size_t>(size()));
  views[static_cast<std::size_t>(rank())] = buffer.bytes();
  return views;
}

Result<std::unique_ptr<Communicator>> NcclCommunicator::split(int colour, int key, Deadline by) {
  TALLY_TRY(auto control, group_->host().split(colour, key, by));
  if (control == nullptr) return std::unique_ptr<Communicator>();
  TALLY_TRY(auto made, make(*control, device_, by));
  made->follow(followed_);
  return std::unique_ptr<Communicator>(std::move(made));
}

void NcclCommunicator::close() {
  group_->watched().close();
  group_->host().close();
}

void NcclCommunicator::abort(const Error& why) {
  group_->watched().abort(why);
  group_->host().abort(why);
}

Traffic NcclCommunicator::traffic() const {
  return {.operations =
              group_->watched().traffic().operations + group_->host().traffic().operations};
}

std::string NcclCommunicator::recent_operations() const {
  return group_->watched().recent_operations() + "messages: " + group_->host().recent_operations();
}

}  // namespace tally::nccl
