#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tally/error.h"

namespace tally::collective {

// A collective operation as data: the copies, sends and receives of one rank, step by step.
// Algorithms are pure functions that return a Schedule; one executor runs them over any Transport,
// and the simulator over a modelled network.

enum class Buffer : std::uint8_t { kInput, kOutput, kScratch };

// Bytes [offset_bytes, offset_bytes + bytes) of one of the operation's buffers.
struct Block {
  Buffer buffer = Buffer::kOutput;
  std::size_t offset_bytes = 0;
  std::size_t bytes = 0;

  friend bool operator==(const Block&, const Block&) = default;
};

enum class ActionKind : std::uint8_t {
  kCopy,     // block = source, at once
  kDivide,   // block /= number of ranks, at once (ReduceOp::kAverage only, else skipped)
  kSend,     // block goes to peer
  kReceive,  // block is overwritten by what peer sends
  kCombine,  // block = op(block, what peer sends)
};

struct Action {
  ActionKind kind = ActionKind::kCopy;
  Rank peer = kNoRank;
  std::uint32_t message = 0;  // names the message between two ranks; the same on both sides
  Block block;
  Block source;  // kCopy only
};

// Steps run one after the other. A step does its copies and divisions in order, starts all its
// sends and receives, and ends when they are done. Within a step no received block overlaps
// another block of the step; at most one kCombine touches a byte.
class Schedule {
 public:
  void begin_step() { step_begins_.push_back(actions_.size()); }
  void copy(Block source, Block block);
  void divide(Block block);
  void send(Rank to, std::uint32_t message, Block block) {
    exchange(ActionKind::kSend, to, message, block);
  }
  void receive(Rank from, std::uint32_t message, Block block) {
    exchange(ActionKind::kReceive, from, message, block);
  }
  void combine(Rank from, std::uint32_t message, Block block) {
    exchange(ActionKind::kCombine, from, message, block);
  }
  void need_scratch(std::size_t bytes) { scratch_bytes_ = bytes; }
  // Lets `count` steps be under way at a time: an action then waits only for actions of earlier
  // steps that use the same bytes, of which one writes them.
  void overlap_steps(std::size_t count) { steps_at_once_ = count; }

  std::size_t step_count() const { return step_begins_.size(); }
  std::span<const Action> step(std::size_t index) const;
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  std::size_t steps_at_once() const { return steps_at_once_; }

  // Exact cost on this rank.
  std::size_t messages_sent() const;
  std::size_t bytes_sent() const;

 private:
  void exchange(ActionKind kind, Rank peer, std::uint32_t message, Block block);

  std::vector<Action> actions_;
  std::vector<std::size_t> step_begins_;  // index of each step's first action
  std::size_t scratch_bytes_ = 0;
  std::size_t steps_at_once_ = 1;
};

// `total` elements in `parts` parts that differ by at most one; the first ones are larger.
struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};
Part part_of(std::size_t total, int parts, int index);

// Algorithms get sizes, never memory. Empty blocks are sent as messages of zero bytes, so that the
// number of messages depends on the number of ranks alone.

// `count` elements of `element_bytes` each.
struct Vector {
  std::size_t count = 0;
  std::size_t element_bytes = 1;

  std::size_t bytes() const { return count * element_bytes; }
};

// The whole of `vector`, in `buffer`.
Block whole(Buffer buffer, const Vector& vector);

// A buffer that holds one part for each rank, one after the other in the order of ranks.
class Parts {
 public:
  // `vector` cut as by part_of().
  static Parts split(const Vector& vector, int ranks);
  // `each` for every rank.
  static Parts equal(const Vector& each, int ranks);
  // counts[r] elements for rank r.
  static Parts of(std::span<const std::size_t> counts, std::size_t element_bytes);

  int size() const { return static_cast<int>(ends_.size()) - 1; }
  std::size_t total_bytes() const { return ends_.back(); }
  std::size_t largest_bytes() const;

  // The part of rank `index`.
  Block block(Buffer buffer, int index) const { return blocks(buffer, index, index + 1); }
  // The parts of ranks [first, last).
  Block blocks(Buffer buffer, int first, int last) const;
  // The part of rank `index` as a buffer of its own.
  Block alone(Buffer buffer, int index) const;

 private:
  explicit Parts(std::vector<std::size_t> ends) : ends_(std::move(ends)) {}
  // In bytes; ends_[0] is 0, ends_[r + 1] is the end of rank r's part.
  std::vector<std::size_t> ends_;
};

// `index` modulo `ranks`, never negative.
constexpr Rank wrap(int index, int ranks) {
  const int remainder = index % ranks;
  return remainder < 0 ? remainder + ranks : remainder;
}

}  // namespace tally::collective
