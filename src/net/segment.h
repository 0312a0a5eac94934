#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/descriptor.h"
#include "base/mutex.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::net {

enum class MemberState : std::uint32_t { kAbsent = 0, kAlive = 1, kDeparted = 2, kDead = 3 };

// The sleep state of a member, in the segment. Each has a pair of cache lines.
struct alignas(128) MemberLine {
  std::atomic<MemberState> state{MemberState::kAbsent};
  std::atomic<std::uint32_t> sleeping{0};
  std::atomic<std::uint32_t> doorbell{0};  // futex word
};

// Anonymous memory that all ranks of a host have mapped: per member a MemberLine, a row of message
// rings, and an arena for buffers. Pages cost memory only once they are touched. Members are
// numbered 0..members()-1 on the host. The memory has no name in any folder. Threads: safe, except
// that one thread at a time sleeps for a member.
class Segment {
 public:
  struct Layout {
    int members = 1;
    std::size_t ring_bytes = std::size_t{256} << 10;  // power of two
    std::size_t arena_bytes = std::size_t{64} << 30;  // address space, not memory
  };

  // A segment whose descriptor can be passed to other processes.
  static Result<std::shared_ptr<Segment>> create(const Layout& layout);
  // Maps the segment that another process created with this layout.
  static Result<std::shared_ptr<Segment>> open(Descriptor memory, const Layout& layout);

  // The processes of the members, where they are simulated.
  class Processes {
   public:
    virtual ~Processes() = default;
    // Wakes a member that has announced its sleep.
    virtual void wake(int member) = 0;
    // The memory of a member that has ended is no longer released: it stays as it was.
    virtual bool has_ended(int member) = 0;
  };
  // A segment for threads of this process, which may be those of a simulation.
  static Result<std::shared_ptr<Segment>> in_process(
      const Layout& layout, std::unique_ptr<Processes> simulated = nullptr);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  int members() const { return layout_.members; }
  const Layout& layout() const { return layout_; }
  int descriptor() const { return memory_.descriptor(); }
  MemberLine& line(int member) const;
  // The ring that carries frames from one member to another.
  std::byte* ring(int from, int to) const;

  // Takes `bytes` of this member's arena, zeroed, aligned to a page. kExhausted if the machine does
  // not have that much memory.
  Result<std::byte*> allocate(int member, std::size_t bytes);
  void release(std::byte* memory);
  // After this call memory that is released is not allocated again: after a failure a slow peer may
  // still write to memory that it knows.
  void stop_reuse();

  // A number that identifies [data, data + bytes) to the other members; 0 if they cannot see it.
  std::uint64_t name_of(const void* data, std::size_t bytes) const;
  // The memory with that number in this process; nullptr if it is not wholly visible.
  std::byte* find(std::uint64_t name, std::size_t bytes) const;

  // Call after publishing something: wakes `member` if it sleeps.
  void notify(int member);
  // Wakes all members but `from`.
  void notify_others(int from);

  // A caller announces its sleep, checks once more, and then sleeps or cancels.
  void announce_sleep(int member);
  void cancel_sleep(int member);
  // Sleeps until notified or `by` passes. Ends the announcement.
  void sleep(int member, Deadline by, TimePoint now);

 private:
  Segment(const Layout& layout, Descriptor memory, std::byte* base,
          std::unique_ptr<Processes> simulated = nullptr);
  static std::size_t total_bytes(const Layout& layout);
  std::byte* arena(int member) const;
  void wake(int member) const;

  const Layout layout_;
  const Descriptor memory_;
  std::byte* const base_;
  const std::unique_ptr<Processes> simulated_;
  std::atomic<std::uint32_t>& sleepers_;  // in the segment: how many members announced sleep
  std::vector<std::uint32_t> tickets_;    // doorbell values at announce_sleep()

  Mutex mutex_;
  // The ranges of the arenas that this process has allocated, by address.
  std::map<std::byte*, std::size_t> taken_ TALLY_GUARDED_BY(mutex_);
  bool reuse_ TALLY_GUARDED_BY(mutex_) = true;
};

}  // namespace tally::net
