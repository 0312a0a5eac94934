#include "net/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/check.h"
#include "base/errors.h"
#include "base/file_limit.h"

namespace tally::net {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kRingHeader = 256;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

Error system_error(const char* what) {
  return {.code = ErrorCode::kSystem, .message = fmt::format("{}: {}", what, std::strerror(errno))};
}

// The address space is reserved and costs no memory, but limits count it.
Error limited(const char* limit, std::size_t bytes) {
  return system_failure(
      "a shared segment of {} GiB exceeds {}: raise it, or set TALLY_TRANSPORT=tcp", bytes >> 30,
      limit);
}

std::size_t lines_bytes(int members) {
  return rounded_up((static_cast<std::size_t>(members) + 1) * sizeof(MemberLine), kPage);
}

std::size_t rings_bytes(const Segment::Layout& layout) {
  const auto members = static_cast<std::size_t>(layout.members);
  return rounded_up(members * members * (layout.ring_bytes + kRingHeader), kHugePage);
}

int futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value,
          const timespec* timeout) {
  return static_cast<int>(syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), operation,
                                  value, timeout, nullptr, 0));
}

}  // namespace

std::size_t Segment::total_bytes(const Layout& layout) {
  return lines_bytes(layout.members) + rings_bytes(layout) +
         static_cast<std::size_t>(layout.members) * layout.arena_bytes;
}

Segment::Segment(const Layout& layout, Descriptor memory, std::byte* base,
                 std::unique_ptr<Processes> simulated)
    : layout_(layout),
      memory_(std::move(memory)),
      base_(base),
      simulated_(std::move(simulated)),
      // The line after those of the members has the shared counters.
      sleepers_(reinterpret_cast<MemberLine*>(base)[layout.members].sleeping),
      tickets_(static_cast<std::size_t>(layout.members), 0) {}

Segment::~Segment() { munmap(base_, total_bytes(layout_)); }

Result<std::shared_ptr<Segment>> Segment::create(const Layout& layout) {
  Descriptor memory(memfd_create("tally", MFD_CLOEXEC));
  if (!memory.open()) return system_error("memfd_create");
  if (exceeds_file_limit(total_bytes(layout)))
    return limited("the limit of file sizes (ulimit -f)", total_bytes(layout));
  if (ftruncate(memory.descriptor(), static_cast<off_t>(total_bytes(layout))) != 0)
    return system_error("sizing the shared segment");
  return open(std::move(memory), layout);
}

Result<std::shared_ptr<Segment>> Segment::open(Descriptor memory, const Layout& layout) {
  const std::size_t bytes = total_bytes(layout);
  if (lseek(memory.descriptor(), 0, SEEK_END) != static_cast<off_t>(bytes)) {
    return corrupt("the shared segment has another size than agreed");
  }
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                    memory.descriptor(), 0);
  if (base == MAP_FAILED && errno == ENOMEM)
    return limited("the limit of address space (ulimit -v)", bytes);
  if (base == MAP_FAILED) return system_error("mapping the shared segment");
  return std::shared_ptr<Segment>(
      new Segment(layout, std::move(memory), static_cast<std::byte*>(base)));
}

Result<std::shared_ptr<Segment>> Segment::in_process(const Layout& layout,
                                                     std::unique_ptr<Processes> simulated) {
  void* base = mmap(nullptr, total_bytes(layout), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return system_error("mapping memory for ranks in one process");
  return std::shared_ptr<Segment>(
      new Segment(layout, Descriptor(), static_cast<std::byte*>(base), std::move(simulated)));
}

MemberLine& Segment::line(int member) const { return reinterpret_cast<MemberLine*>(base_)[member]; }

std::byte* Segment::ring(int from, int to) const {
  const auto index = static_cast<std::size_t>(from) * static_cast<std::size_t>(layout_.members) +
                     static_cast<std::size_t>(to);
  return base_ + lines_bytes(layout_.members) + index * (layout_.ring_bytes + kRingHeader);
}

std::byte* Segment::arena(int member) const {
  return base_ + lines_bytes(layout_.members) + rings_bytes(layout_) +
         static_cast<std::size_t>(member) * layout_.arena_bytes;
}

Result<std::byte*> Segment::allocate(int member, std::size_t bytes) {
  const std::size_t wanted = rounded_up(std::max<std::size_t>(bytes, 1), kPage);
  std::byte* const begin = arena(member);
  std::byte* const end = begin + layout_.arena_bytes;
  MutexLock lock(mutex_);
  // First fit between the ranges taken.
  std::byte* place = begin;
  for (auto taken = taken_.lower_bound(begin); taken != taken_.end() && taken->first < end;
       ++taken) {
    if (static_cast<std::size_t>(taken->first - place) >= wanted) break;
    place = taken->first + taken->second;
  }
  if (static_cast<std::size_t>(end - place) < wanted) {
    return make_error(ErrorCode::kExhausted,
                      "{} bytes of shared memory asked for, arena of {} is full", bytes,
                      layout_.arena_bytes);
  }
  // Reserving the pages now returns an error if memory is short, instead of a signal later.
  if (memory_.open() &&
      fallocate(memory_.descriptor(), 0, place - base_, static_cast<off_t>(wanted)) != 0) {
    return make_error(ErrorCode::kExhausted, "{} bytes of shared memory: {}", bytes,
                      std::strerror(errno));
  }
  madvise(place, wanted, MADV_HUGEPAGE);
  taken_.emplace(place, wanted);
  return place;
}

void Segment::release(std::byte* memory) {
  if (simulated_) {
    const auto offset = static_cast<std::size_t>(memory - arena(0));
    if (simulated_->has_ended(static_cast<int>(offset / layout_.arena_bytes))) return;
  }
  MutexLock lock(mutex_);
  const auto taken = taken_.find(memory);
  TALLY_CHECK(taken != taken_.end());
  // Releases the pages, so that the next owner finds zeros.
  if (memory_.open()) {
    fallocate(memory_.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, memory - base_,
              static_cast<off_t>(taken->second));
  } else {
    madvise(memory, taken->second, MADV_DONTNEED);
  }
  if (reuse_) taken_.erase(taken);
}

void Segment::stop_reuse() {
  MutexLock lock(mutex_);
  reuse_ = false;
}

std::uint64_t Segment::name_of(const void* data, std::size_t bytes) const {
  const auto* start = static_cast<const std::byte*>(data);
  if (start < base_ || start + bytes > base_ + total_bytes(layout_)) return 0;
  return static_cast<std::uint64_t>(start - base_);
}

std::byte* Segment::find(std::uint64_t name, std::size_t bytes) const {
  const std::size_t total = total_bytes(layout_);
  if (name == 0 || bytes > total || name > total - bytes) return nullptr;
  return base_ + name;
}

void Segment::wake(int member) const {
  if (simulated_) return simulated_->wake(member);
  MemberLine& theirs = line(member);
  theirs.doorbell.fetch_add(1, std::memory_order_release);
  futex(&theirs.doorbell, FUTEX_WAKE, 1, nullptr);
}

void Segment::notify(int member) {
  // Pairs with the fence in announce_sleep(): either this process sees the sleeper, or the sleeper
  // sees what was published.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (line(member).sleeping.load(std::memory_order_relaxed) != 0) wake(member);
}

void Segment::notify_others(int from) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_relaxed) == 0) return;
  for (int member = 0; member < layout_.members; ++member) {
    if (member != from && line(member).sleeping.load(std::memory_order_relaxed) != 0) wake(member);
  }
}

void Segment::announce_sleep(int member) {
  MemberLine& mine = line(member);
  tickets_[static_cast<std::size_t>(member)] = mine.doorbell.load(std::memory_order_acquire);
  mine.sleeping.store(1, std::memory_order_relaxed);
  sleepers_.fetch_add(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Segment::cancel_sleep(int member) {
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  line(member).sleeping.store(0, std::memory_order_relaxed);
}

void Segment::sleep(int member, Deadline by, TimePoint now) {
  const Duration left = by.remaining(now);
  if (left > Duration::zero()) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec timeout{static_cast<time_t>(std::min<std::int64_t>(seconds.count(), 1 << 20)),
                           static_cast<long>((left - seconds).count())};
    futex(&line(member).doorbell, FUTEX_WAIT, tickets_[static_cast<std::size_t>(member)], &timeout);
  }
  cancel_sleep(member);
}

}  // namespace tally::net
