#include "adapters/cuda/emulation/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <bit>
#include <deque>
#include <latch>
#include <memory>
#include <utility>
#include <vector>

#include "adapters/cuda/emulation/context.h"
#include "adapters/cuda/emulation/thread_pool.h"
#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define TALLY_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TALLY_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef TALLY_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// A block has a scheduler and fibers. A fiber takes one thread after the other; when a thread
// waits, its fiber gives control back, and the scheduler takes another fiber for the next threads.
// A kernel whose threads never wait thus needs one fiber and no switches. When all threads have
// begun, fibers hand control to each other: to the one that has been ready for the longest time.
namespace tally::cuda::emulation {
namespace {

constexpr unsigned kLanes = 32;

// The stack of a fiber, with a page below it that no fiber may touch.
class Stack final {
 public:
  Stack() {
    memory_ = mmap(nullptr, kGuard + kBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TALLY_CHECK(memory_ != MAP_FAILED);
    TALLY_CHECK(mprotect(memory_, kGuard, PROT_NONE) == 0);
  }
  ~Stack() {
#ifdef TALLY_ADDRESS_SANITIZER
    // The fiber is in the middle of functions, and other memory comes to lie here.
    ASAN_UNPOISON_MEMORY_REGION(bottom(), kBytes);
#endif
    munmap(memory_, kGuard + kBytes);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  void* bottom() const { return static_cast<char*>(memory_) + kGuard; }
  static constexpr std::size_t kBytes = std::size_t{256} << 10;

 private:
  static constexpr std::size_t kGuard = 4096;
  void* memory_ = nullptr;
};

// The address sanitizer must know the stacks.
struct Place {
  Context context;
  const void* bottom = nullptr;
  std::size_t bytes = 0;
};

// Goes on at `to`; returns when something goes on at `from`.
inline void switch_places(Place& from, Place& to) {
#ifdef TALLY_ADDRESS_SANITIZER
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, to.bottom, to.bytes);
#endif
  switch_contexts(from.context, to.context);
#ifdef TALLY_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

class Block;

struct Fiber {
  Stack stack;
  Place place;
  unsigned thread = 0;  // that it has taken
};

// The fibers of a thread of the operating system, for all blocks that it runs.
struct Fibers {
  Place scheduler;
  std::vector<std::unique_ptr<Fiber>> all;
  std::vector<Fiber*> free;  // without a thread
  Block* block = nullptr;    // that runs
  Fiber* running = nullptr;
};
Fibers& fibers() {
  static thread_local Fibers own;
  return own;
}

Fiber* new_fiber();

// Shared by the blocks of a grid that run together.
using GridBarrier = std::barrier<>;

class Block final {
 public:
  Block(const std::function<void()>& kernel, unsigned threads, GridBarrier* grid)
      : kernel_(kernel), threads_(threads), grid_(grid), warps_((threads + kLanes - 1) / kLanes) {}

  void run() {
    Fibers& own = fibers();
    own.block = this;
    while (begun_ < threads_) {
      if (own.free.empty()) own.free.push_back(new_fiber());
      Fiber& fiber = *own.free.back();
      own.free.pop_back();
      go_on(own.scheduler, fiber);
    }
    // A fiber that has nothing to do comes back.
    while (ended_ < threads_) {
      // Else threads of the kernel wait for each other, or for a lane that has ended.
      TALLY_CHECK(!ready_.empty());
      go_on(own.scheduler, next_ready());
    }
  }

  // On a fiber: takes threads until none is left.
  void take_threads() {
    Fiber& fiber = *fibers().running;
    while (begun_ < threads_) {
      fiber.thread = begun_++;
      set_place(fiber);
      kernel_();
      ++ended_;
      release_block_if_complete();
    }
    fibers().free.push_back(&fiber);
  }

  void wait_for_block() {
    block_waiting_.push_back(fibers().running);
    release_block_if_complete();
    wait();
  }

  void wait_for_grid() {
    TALLY_CHECK(grid_ != nullptr);
    grid_wait_ = true;
    wait_for_block();
  }

  std::uint64_t with_lanes(const LaneCall& call) {
    Fiber& fiber = *fibers().running;
    Warp& warp = warps_[fiber.thread / kLanes];
    const unsigned lane = fiber.thread % kLanes;
    TALLY_CHECK((call.mask >> lane & 1U) != 0);
    warp.calls[lane] = call;
    warp.fibers[lane] = &fiber;
    warp.arrived |= 1U << lane;
    if ((warp.arrived & call.mask) != call.mask) {
      wait();
      return warp.answers[lane];
    }
    warp.arrived &= ~call.mask;
    answer(warp, call);
    for_lanes(call.mask, [&](unsigned other) {
      if (other != lane) ready_.push_back(warp.fibers[other]);
    });
    return warp.answers[lane];
  }

 private:
  struct Warp {
    std::array<LaneCall, kLanes> calls{};
    std::array<Fiber*, kLanes> fibers{};
    std::array<std::uint64_t, kLanes> answers{};
    unsigned arrived = 0;
  };

  template <typename Visit>
  static void for_lanes(unsigned mask, const Visit& visit) {
    for (; mask != 0; mask &= mask - 1) visit(static_cast<unsigned>(std::countr_zero(mask)));
  }

  // Answers the calls of all lanes of the mask, which are like `call`.
  static void answer(Warp& warp, const LaneCall& call) {
    for_lanes(call.mask, [&](unsigned lane) {
      const LaneCall& own = warp.calls[lane];
      TALLY_CHECK(own.kind == call.kind && own.mask == call.mask && own.width == call.width);
    });
    const auto answer_all = [&](std::uint64_t value) {
      for_lanes(call.mask, [&](unsigned lane) { warp.answers[lane] = value; });
    };
    std::uint64_t joined = 0;
    switch (call.kind) {
      case LaneCall::Kind::kWait:
        return;
      case LaneCall::Kind::kBallot:
        for_lanes(call.mask, [&](unsigned lane) { joined |= warp.calls[lane].value << lane; });
        return answer_all(joined);
      case LaneCall::Kind::kAdd:
        for_lanes(call.mask, [&](unsigned lane) { joined += warp.calls[lane].value; });
        return answer_all(joined);
      case LaneCall::Kind::kMax:
        for_lanes(call.mask,
                  [&](unsigned lane) { joined = std::max(joined, warp.calls[lane].value); });
        return answer_all(joined);
      default:
        for_lanes(call.mask, [&](unsigned lane) {
          const unsigned source = source_of(warp.calls[lane], lane);
          TALLY_CHECK((call.mask >> source & 1U) != 0);
          warp.answers[lane] = warp.calls[source].value;
        });
    }
  }

  // The lane whose value this lane wants: itself, if its row of `width` lanes has no such lane.
  static unsigned source_of(const LaneCall& call, unsigned lane) {
    const auto width = static_cast<unsigned>(call.width);
    const unsigned first = lane / width * width;
    const unsigned argument = call.argument;
    switch (call.kind) {
      case LaneCall::Kind::kFrom:
        return first + argument % width;
      case LaneCall::Kind::kFromBelow:
        return lane - first >= argument ? lane - argument : lane;
      case LaneCall::Kind::kFromAbove:
        return lane - first + argument < width ? lane + argument : lane;
      case LaneCall::Kind::kFromXor:
        return (lane ^ argument) < first + width ? lane ^ argument : lane;
      default:
        TALLY_UNREACHABLE();
    }
  }

  // Threads that have ended count as waiting.
  void release_block_if_complete() {
    if (block_waiting_.empty() || block_waiting_.size() + ended_ < threads_) return;
    if (grid_wait_) grid_->arrive_and_wait();
    grid_wait_ = false;
    for (Fiber* const fiber : block_waiting_) ready_.push_back(fiber);
    block_waiting_.clear();
  }

  // Lets others go on until one of them goes on with this fiber, which is ready by then.
  void wait() {
    Fibers& own = fibers();
    Fiber& fiber = *own.running;
    if (begun_ < threads_ || ready_.empty()) {
      switch_places(fiber.place, own.scheduler);
    } else if (Fiber& next = next_ready(); &next != &fiber) {
      go_on(fiber.place, next);
    }
    set_place(fiber);
  }

  Fiber& next_ready() {
    Fiber& next = *ready_.front();
    ready_.pop_front();
    return next;
  }

  static void go_on(Place& from, Fiber& fiber) {
    fibers().running = &fiber;
    switch_places(from, fiber.place);
  }

  static void set_place(const Fiber& fiber) { threadIdx = {fiber.thread, 0, 0}; }

  const std::function<void()>& kernel_;
  const unsigned threads_;
  GridBarrier* const grid_;  // null: the blocks do not run together
  std::vector<Warp> warps_;
  unsigned begun_ = 0;
  unsigned ended_ = 0;
  std::vector<Fiber*> block_waiting_;
  bool grid_wait_ = false;
  std::deque<Fiber*> ready_;
};

// A fiber never ends: it waits for the next block.
void fiber_main() {
  Fibers& own = fibers();
#ifdef TALLY_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(nullptr, &own.scheduler.bottom, &own.scheduler.bytes);
#endif
  for (;;) {
    Fiber& fiber = *own.running;
    own.block->take_threads();
    switch_places(fiber.place, own.scheduler);
  }
}

Fiber* new_fiber() {
  Fiber& fiber = *fibers().all.emplace_back(std::make_unique<Fiber>());
  fiber.place.bottom = fiber.stack.bottom();
  fiber.place.bytes = Stack::kBytes;
  // Stacks that began at the same address of a page would lie in the same lines of the cache.
  constexpr std::size_t kShift = 7 * 64, kMostShift = std::size_t{32} << 10;
  const std::size_t bytes = Stack::kBytes - fibers().all.size() * kShift % kMostShift;
  prepare(fiber.place.context, fiber.stack.bottom(), bytes, fiber_main);
  return &fiber;
}

void run_block(const std::function<void()>& kernel, unsigned number, unsigned blocks,
               unsigned threads, GridBarrier* grid) {
  blockIdx = {number, 0, 0};
  blockDim = dim3(threads);
  gridDim = dim3(blocks);
  Block(kernel, threads, grid).run();
}

}  // namespace

std::uint64_t with_lanes(const LaneCall& call) { return fibers().block->with_lanes(call); }
void wait_for_block() { fibers().block->wait_for_block(); }
void wait_for_grid() { fibers().block->wait_for_grid(); }

void run_blocks(const std::function<void()>& kernel, unsigned blocks, unsigned threads) {
  for (unsigned block = 0; block < blocks; ++block)
    run_block(kernel, block, blocks, threads, nullptr);
}

void run_blocks_together(const std::function<void()>& kernel, unsigned blocks, unsigned threads) {
  GridBarrier grid(blocks);
  std::latch others(blocks - 1);
  for (unsigned block = 1; block < blocks; ++block)
    thread_pool().run([&, block] {
      run_block(kernel, block, blocks, threads, &grid);
      others.count_down();
    });
  run_block(kernel, 0, blocks, threads, &grid);
  others.wait();
}

}  // namespace tally::cuda::emulation

#undef TALLY_ADDRESS_SANITIZER
