#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "net/segment.h"
#include "wire/frame.h"

namespace tally::collective {

// The location of a member's data for the others: visible memory by its number, private memory
// (pieces of it are then copied through the stage), or none.
struct Place {
  enum class Kind : std::uint64_t { kNone, kVisible, kStaged };
  Kind kind = Kind::kNone;
  std::uint64_t name = 0;  // kVisible: Segment::name_of()
};

// A member publishes this when it enters an operation, or one of its two direct stages.
struct Notice {
  std::uint32_t sequence = 0;  // twice the operation's number, and one more for a second stage
  wire::Signature signature;
  Place input;
  Place output;
};

// The location of this rank's memory for the others.
inline Place place_of(const net::Segment& segment, const void* data, std::size_t bytes) {
  if (data == nullptr || bytes == 0) return {};
  const std::uint64_t name = segment.name_of(data, bytes);
  return name != 0 ? Place{Place::Kind::kVisible, name} : Place{Place::Kind::kStaged, 0};
}

// The memory through which the ranks of one communicator on one host work directly: for each member
// a line of counters that only it writes, a stage for pieces of private memory, and small slots.
// Counters only grow and are compared modulo 2^32.
class SharedArea {
 public:
  static constexpr std::size_t kStageBytes = std::size_t{256}
                                             << 10;                 // one piece of input or result
  static constexpr int kStages = 4;                                 // pieces under way at once
  static constexpr std::size_t kSlotBytes = std::size_t{16} << 10;  // largest message by slots

  static std::size_t bytes_for(int members);

  struct Member {
    Rank rank = 0;    // in the communicator
    int in_host = 0;  // in the segment
  };

  // `memory` has bytes_for(members) zeroed bytes, the same memory on every member.
  SharedArea(std::shared_ptr<net::Segment> segment, std::byte* memory, std::vector<Member> members,
             int self);

  // This member stops using the area.
  void leave();
  // Whether all members of the area at `memory` have left, so that it may be released.
  static bool abandoned(const std::byte* memory, int members);

  int members() const { return static_cast<int>(members_.size()); }
  int self() const { return self_; }
  Rank rank_of(int member) const { return members_[static_cast<std::size_t>(member)].rank; }
  net::Segment& segment() const { return *segment_; }

  // Announces an operation; call it before anything else is published about it.
  void announce(const Notice& notice);
  // The member's notice for operation `sequence`; none if it has not entered it yet, or is more
  // than one operation ahead.
  std::optional<Notice> notice(int member, std::uint32_t sequence) const;

  // Publishes that this member has done one more arrival or reduction since the area was made.
  void publish_arrival() { publish(line(self_).arrived, ++arrivals_); }
  void publish_reduction() { publish(line(self_).reduced, ++reductions_); }
  bool has_arrived(int member, std::uint32_t total) const {
    return static_cast<std::int32_t>(line(member).arrived.load(std::memory_order_acquire) -
                                     total) >= 0;
  }
  bool has_reduced(int member, std::uint32_t total) const {
    return static_cast<std::int32_t>(line(member).reduced.load(std::memory_order_acquire) -
                                     total) >= 0;
  }
  std::uint32_t arrivals() const { return arrivals_; }
  std::uint32_t reductions() const { return reductions_; }

  std::byte* input_stage(int member, std::size_t piece) const;
  std::byte* result_stage(int member, std::size_t piece) const;
  // Operations alternate between two slots per member.
  std::byte* slot(int member, std::uint32_t turn) const;
  std::uint32_t next_turn() { return turn_++; }
  // The slots of all members for that turn, in order.
  std::span<const void* const> slots(std::uint32_t turn) const { return slots_[turn % 2]; }
  // Room for one pointer per member, for the operation under way.
  std::vector<const void*>& inputs() { return inputs_; }
  std::vector<void*>& outputs() { return outputs_; }

 private:
  struct AtomicNotice {
    std::atomic<std::uint32_t> sequence;
    std::array<std::atomic<std::uint64_t>, 6> words;
  };
  struct alignas(128) Line {
    std::atomic<std::uint32_t> arrived;
    std::atomic<std::uint32_t> reduced;
    alignas(128) std::array<AtomicNotice, 4> notices;
  };
  static std::size_t lines_bytes(int members);
  void publish(std::atomic<std::uint32_t>& counter, std::uint32_t count);
  Line& line(int member) const { return lines_[member]; }
  std::byte* data_of(int member) const;

  const std::shared_ptr<net::Segment> segment_;  // shared with the job's other users of it
  Line* const lines_;
  std::byte* const data_;
  const std::vector<Member> members_;
  const int self_;
  std::uint32_t arrivals_ = 0;
  std::uint32_t reductions_ = 0;
  std::uint32_t turn_ = 0;
  std::array<std::vector<const void*>, 2> slots_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace tally::collective
