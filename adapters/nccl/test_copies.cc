#include "adapters/nccl/test_copies.h"

#include <cuda_runtime_api.h>

#include <numeric>
#include <utility>

#include "adapters/cuda/cuda_device.h"
#include "adapters/nccl/nccl_group.h"
#include "base/errors.h"
#include "base/mutex.h"
#include "collective/handle.h"
#include "collective/request.h"
#include "collective/shared_buffer.h"

namespace tally::nccl {
namespace {

using cuda::CurrentGpu;

// Memory of the GPU for operations in flight, allocated once: to allocate and free memory may wait
// for the kernels of other operations. It begins anew whenever no operation has a part of it.
class Arena final {
 public:
  static constexpr std::size_t kBytes = std::size_t{16} << 20;
  static constexpr std::size_t kAlignment = 256;

  explicit Arena(int gpu) : gpu_(gpu) {
    const CurrentGpu current(gpu);
    if (cudaMalloc(&memory_, kBytes) != cudaSuccess) memory_ = nullptr;
  }
  ~Arena() {
    const CurrentGpu current(gpu_);
    (void)cudaFree(memory_);
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Null if there is no room.
  std::byte* take(std::size_t bytes) {
    const MutexLock lock(mutex_);
    if (memory_ == nullptr || kBytes - used_ < bytes) return nullptr;
    std::byte* const taken = static_cast<std::byte*>(memory_) + used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    ++parts_;
    return taken;
  }
  void give_back() {
    const MutexLock lock(mutex_);
    if (--parts_ == 0) used_ = 0;
  }

 private:
  const int gpu_;
  void* memory_ = nullptr;
  Mutex mutex_;
  std::size_t used_ TALLY_GUARDED_BY(mutex_) = 0;
  int parts_ TALLY_GUARDED_BY(mutex_) = 0;
};

struct Sizes {
  std::size_t input = 0;
  std::size_t output = 0;
};

// The bytes of this rank's input and output, as the table at Request has them.
Sizes sizes_of(const Request& r, Rank rank, int ranks) {
  const auto total = [](std::span<const std::size_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  };
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t all = r.counts.empty() ? r.count * n : total(r.counts);
  const std::size_t own = r.counts.empty() ? r.count : r.counts[static_cast<std::size_t>(rank)];
  const bool at_root = rank == r.root;
  Sizes sizes;
  switch (r.operation) {
    case Operation::kBarrier:
      break;
    case Operation::kAllreduce:
      sizes = {r.count, r.count};
      break;
    case Operation::kReduceScatter:
      sizes = {all, own};
      break;
    case Operation::kAllgather:
      sizes = {own, all};
      break;
    case Operation::kBroadcast:
      sizes = {at_root ? r.count : 0, r.count};
      break;
    case Operation::kReduce:
      sizes = {r.count, at_root ? r.count : 0};
      break;
    case Operation::kGather:
      sizes = {own, at_root ? all : 0};
      break;
    case Operation::kScatter:
      sizes = {at_root ? all : 0, own};
      break;
    case Operation::kAllToAll:
      sizes = {all, r.receive_counts.empty() ? all : total(r.receive_counts)};
      break;
    case Operation::kSend:
      sizes = {r.count, 0};
      break;
    case Operation::kReceive:
      sizes = {0, r.count};
      break;
  }
  return {.input = sizes.input * size_of(r.type), .output = sizes.output * size_of(r.type)};
}

// An operation whose memory is on the GPU.
class Staged final {
 public:
  static Result<std::shared_ptr<Staged>> make(const std::shared_ptr<Arena>& arena, int gpu,
                                              const Request& request, Sizes sizes) {
    // A place in the arena for each array, also for one without elements.
    std::byte* const memory = arena->take(sizes.input + Arena::kAlignment + sizes.output);
    if (memory == nullptr) return make_error(ErrorCode::kExhausted, "the arena of a test is full");
    const auto staged = std::make_shared<Staged>(arena, gpu, request, sizes, memory);
    TALLY_TRY(staged->copy_in());
    return staged;
  }

  Staged(std::shared_ptr<Arena> arena, int gpu, const Request& request, Sizes sizes,
         std::byte* memory)
      : arena_(std::move(arena)), gpu_(gpu), sizes_(sizes), output_(request.output) {
    input_ = request.input;
    request_ = request;
    const std::size_t after =
        (sizes.input + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
    if (request.output != nullptr) request_.output = memory + after;
    if (request.input != nullptr)
      request_.input = request.input == request.output ? request_.output : memory;
  }
  ~Staged() { arena_->give_back(); }
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  const Request& request() const { return request_; }

  Result<void> copy_back() {
    if (sizes_.output == 0) return {};
    const CurrentGpu current(gpu_);
    return check(cudaMemcpy(output_, request_.output, sizes_.output, cudaMemcpyDeviceToHost),
                 "copying an output");
  }

 private:
  Result<void> copy_in() {
    if (sizes_.input == 0) return {};
    const CurrentGpu current(gpu_);
    return check(
        cudaMemcpy(const_cast<void*>(request_.input), input_, sizes_.input, cudaMemcpyHostToDevice),
        "copying an input");
  }

  const std::shared_ptr<Arena> arena_;  // shared with all operations and communicators
  const int gpu_;
  const Sizes sizes_;
  const void* input_ = nullptr;
  void* const output_;
  Request request_;
};

class OverCopies final : public Communicator {
 public:
  OverCopies(std::unique_ptr<Communicator> inner, int gpu, std::shared_ptr<Arena> arena)
      : gpu_(gpu), arena_(std::move(arena)), inner_(std::move(inner)) {}

  Rank rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  Result<void> run(const Request& request) override {
    TALLY_TRY(const auto staged, stage(request));
    TALLY_TRY(inner_->run(staged->request()));
    return staged->copy_back();
  }

  Handle start(const Request& request) override {
    auto staged = stage(request);
    if (!staged.has_value()) return ended_handle(staged.error());
    const auto state = std::make_shared<Handle::State>();
    inner_->start((*staged)->request())
        .then([state, operation = *staged](const Result<void>& outcome) {
          state->complete(outcome.has_value() ? operation->copy_back() : outcome);
        });
    return Handle(state);
  }

  Result<SharedBuffer> allocate(std::size_t bytes) override {
    return SharedBuffer::Owner::from_heap(bytes);
  }
  Result<std::vector<std::span<std::byte>>> share(const SharedBuffer& buffer,
                                                  Deadline by) override {
    return inner_->share(buffer, by);
  }
  Result<std::unique_ptr<Communicator>> split(int colour, int key, Deadline by) override {
    TALLY_TRY(auto part, inner_->split(colour, key, by));
    if (part == nullptr) return std::unique_ptr<Communicator>();
    return std::unique_ptr<Communicator>(
        std::make_unique<OverCopies>(std::move(part), gpu_, arena_));
  }
  void close() override { inner_->close(); }
  void abort(const Error& why) override { inner_->abort(why); }
  Traffic traffic() const override { return inner_->traffic(); }
  std::string recent_operations() const override { return inner_->recent_operations(); }

 private:
  Result<std::shared_ptr<Staged>> stage(const Request& request) {
    TALLY_TRY(collective::check(request, rank(), size()));
    return Staged::make(arena_, gpu_, request, sizes_of(request, rank(), size()));
  }

  const int gpu_;
  const std::shared_ptr<Arena> arena_;  // shared with the communicators of split()
  const std::unique_ptr<Communicator> inner_;
};

}  // namespace

std::unique_ptr<Communicator> over_copies(std::unique_ptr<Communicator> inner, int gpu) {
  return std::make_unique<OverCopies>(std::move(inner), gpu, std::make_shared<Arena>(gpu));
}

}  // namespace tally::nccl
