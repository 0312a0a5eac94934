#include "bench/allreduce/contender.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/check.h"
#include "base/cpu.h"

namespace tally::bench {
namespace {

constexpr std::size_t kHugePageBytes = 2 << 20;
constexpr double kPassesMicroseconds = 200;
// Threads that overlap less than this were not running together.
constexpr double kTogether = 0.8;
constexpr int kMaxSamples = 250;

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline __attribute__((always_inline)) void meet_loop(float* __restrict a, float* __restrict b,
                                                     std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] = (a[i] + b[i]) * 0.5F;
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) void meet_avx2(float* a, float* b, std::size_t count) {
  meet_loop(a, b, count);
}
#endif
void meet(float* a, float* b, std::size_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0) return meet_avx2(a, b, count);
#endif
  meet_loop(a, b, count);
}

struct Interval {
  double start_us = 0;
  double end_us = 0;
};

// Binds the calling thread to the `index`th usable core, so that threads do not share cores.
void bind_to_core(int index) {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &usable) || index-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

// A barrier without sleeping, so that all threads leave it at the same moment.
class SpinBarrier final {
 public:
  explicit SpinBarrier(int threads) : threads_(threads) {}
  void arrive_and_wait() {
    const int turn = arrived_.fetch_add(1) / threads_;
    while (arrived_.load() < (turn + 1) * threads_) spin_pause();
  }

 private:
  const int threads_;
  std::atomic<int> arrived_ = 0;
};

// Returns the time from the first thread's start to the last one's end, by sample. On a busy
// machine threads may not run at the same time, and each then has the memory to itself; such
// samples are left out, unless all are like that.
std::vector<double> times_together(const std::vector<std::vector<Interval>>& by_thread) {
  std::vector<double> together;
  std::vector<double> all;
  for (std::size_t sample = 0; sample < by_thread.front().size(); ++sample) {
    Interval whole = by_thread.front()[sample];
    double shortest_us = whole.end_us - whole.start_us;
    for (const auto& intervals : by_thread) {
      const Interval& own = intervals[sample];
      whole.start_us = std::min(whole.start_us, own.start_us);
      whole.end_us = std::max(whole.end_us, own.end_us);
      shortest_us = std::min(shortest_us, own.end_us - own.start_us);
    }
    const double whole_us = whole.end_us - whole.start_us;
    all.push_back(whole_us);
    if (shortest_us >= kTogether * whole_us) together.push_back(whole_us);
  }
  return together.empty() ? all : together;
}

struct Free {
  void operator()(float* data) const { std::free(data); }
};
using Array = std::unique_ptr<float[], Free>;

// Uses huge pages if available: page tables should not limit the floor.
Array make_array(std::size_t count) {
  const std::size_t bytes = (count * sizeof(float) + kHugePageBytes - 1) & ~(kHugePageBytes - 1);
  void* data = std::aligned_alloc(kHugePageBytes, bytes);
  TALLY_CHECK(data != nullptr);
  ::madvise(data, bytes, MADV_HUGEPAGE);
  return Array(static_cast<float*>(data));
}

class MemoryFloor final : public Contender {
 public:
  explicit MemoryFloor(int ranks)
      : ranks_(ranks),
        threads_(std::clamp(ranks, 1, static_cast<int>(std::thread::hardware_concurrency()))) {}

  const ContenderFacts& facts() const override { return facts_; }
  Result<void> check(std::size_t) override { return {}; }
  Result<Answer> measure(std::size_t bytes, Duration time) override;

 private:
  int ranks_;
  int threads_;
  const ContenderFacts facts_{"memory-floor", "memory", ""};
};

// In each sample all threads start together and process their own parts `passes` times. The thread
// that uses a part touches it first.
Result<Answer> MemoryFloor::measure(std::size_t bytes, Duration time) {
  const std::size_t count =
      std::max<std::size_t>(static_cast<std::size_t>(threads_), bytes / sizeof(float) * ranks_ / 2);
  const double slice_us = std::chrono::duration<double, std::micro>(time).count();
  const Array a = make_array(count);
  const Array b = make_array(count);
  std::vector<std::vector<Interval>> intervals(threads_);
  SpinBarrier together(threads_);
  int passes = 1;
  int samples = 3;
  const auto work = [&](int thread) {
    bind_to_core(thread);
    const std::size_t first = count * thread / threads_;
    const std::size_t length = count * (thread + 1) / threads_ - first;
    std::fill_n(&a[first], length, 1.0F);
    std::fill_n(&b[first], length, 2.0F);
    meet(&a[first], &b[first], length);
    if (thread == 0) {
      const double start = now_us();
      for (int i = 0; i < 3; ++i) meet(&a[first], &b[first], length);
      const double pass_us = std::max(0.001, (now_us() - start) / 3);
      passes = std::max(1, static_cast<int>(std::ceil(kPassesMicroseconds / pass_us)));
      samples = static_cast<int>(std::clamp(slice_us / (pass_us * passes), 3.0, 1.0 * kMaxSamples));
    }
    together.arrive_and_wait();
    for (int sample = 0; sample < samples; ++sample) {
      together.arrive_and_wait();
      const double start = now_us();
      for (int pass = 0; pass < passes; ++pass) meet(&a[first], &b[first], length);
      intervals[thread].push_back({.start_us = start, .end_us = now_us()});
    }
  };
  {
    std::vector<std::jthread> workers;
    workers.reserve(threads_);
    for (int thread = 0; thread < threads_; ++thread) workers.emplace_back(work, thread);
  }
  Answer answer{
      .samples_us = times_together(intervals), .bytes_sent = 0, .calls = long{samples} * passes};
  for (double& sample : answer.samples_us) sample /= passes;
  return answer;
}

}  // namespace

std::unique_ptr<Contender> make_memory_floor(int ranks) {
  return std::make_unique<MemoryFloor>(ranks);
}

}  // namespace tally::bench
