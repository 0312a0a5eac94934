#include "collective/algorithms.h"

#include <algorithm>

#include "base/check.h"

namespace tally::collective {
namespace {

// How many turns of a segment may be under way: receives are posted so far ahead of the sends.
constexpr int kTurnsAhead = 4;

struct Neighbours {
  Rank left;
  Rank right;
};

Neighbours neighbours_of(Rank rank, int ranks) {
  TALLY_CHECK(0 <= rank && rank < ranks);
  return {.left = wrap(rank - 1, ranks), .right = wrap(rank + 1, ranks)};
}

// The blocks of an all-reduce. Chunks are numbered modulo N, and each is cut into `segments`.
class SegmentedChunks final {
 public:
  SegmentedChunks(const Vector& vector, int ranks, std::size_t segment_bytes)
      : vector_(vector), ranks_(ranks) {
    const std::size_t chunk_bytes = part_of(vector.count, ranks, 0).size() * vector.element_bytes;
    segments_ = static_cast<int>(std::max<std::size_t>(
        1, chunk_bytes / segment_bytes + (chunk_bytes % segment_bytes != 0 ? 1 : 0)));
  }

  int segments() const { return segments_; }
  Block block(Buffer buffer, int chunk, int segment) const {
    const Part outer = part_of(vector_.count, ranks_, wrap(chunk, ranks_));
    const Part inner = part_of(outer.size(), segments_, segment);
    return {.buffer = buffer,
            .offset_bytes = (outer.begin + inner.begin) * vector_.element_bytes,
            .bytes = inner.size() * vector_.element_bytes};
  }

 private:
  const Vector vector_;
  const int ranks_;
  int segments_ = 1;
};

// One turn of one segment. The turns 0 to N-2 are the summing lap: turn t sends chunk own-1-t to
// the right and adds the arriving chunk own-2-t. The last one completes chunk own. The gathering
// lap starts with it: turn N-1+t sends chunk own-t and receives chunk own-1-t.
void add_turn(Schedule& schedule, const SegmentedChunks& chunks, Rank own, int ranks, int turn,
              int segment) {
  const auto [left, right] = neighbours_of(own, ranks);
  const bool summing = turn < ranks - 1;
  const int sent = summing ? own - 1 - turn : own + ranks - 1 - turn;
  const int arriving = sent - 1;
  const auto message = static_cast<std::uint32_t>(segment * 2 * (ranks - 1) + turn);
  const Block arrival = chunks.block(Buffer::kOutput, arriving, segment);
  const Block departure = chunks.block(Buffer::kOutput, sent, segment);
  schedule.begin_step();
  if (turn == 0) schedule.copy(chunks.block(Buffer::kInput, sent, segment), departure);
  if (turn == ranks - 1) schedule.divide(departure);
  if (summing) schedule.copy(chunks.block(Buffer::kInput, arriving, segment), arrival);
  schedule.send(right, message, departure);
  if (summing) {
    schedule.combine(left, message, arrival);
  } else {
    schedule.receive(left, message, arrival);
  }
}

}  // namespace

Schedule ring_allreduce(const Vector& vector, Rank rank, int ranks) {
  return segmented_ring_allreduce(vector, rank, ranks, {.bytes = vector.bytes() + 1});
}

// A segment is the same part of every chunk, and goes round the ring on its own. Each of its turns
// sends what the turn before received, which is then still in the processor's cache. The turns of
// `at_once` segments alternate, so that some travel while another is added.
Schedule segmented_ring_allreduce(const Vector& vector, Rank rank, int ranks,
                                  const RingSegments& cut) {
  TALLY_CHECK(0 <= rank && rank < ranks && cut.bytes > 0 && cut.at_once > 0);
  Schedule schedule;
  if (ranks == 1) {
    schedule.begin_step();
    schedule.copy(whole(Buffer::kInput, vector), whole(Buffer::kOutput, vector));
    schedule.divide(whole(Buffer::kOutput, vector));
    return schedule;
  }
  const SegmentedChunks chunks(vector, ranks, cut.bytes);
  schedule.overlap_steps(std::size_t{kTurnsAhead} * static_cast<std::size_t>(cut.at_once));
  for (int first = 0; first < chunks.segments(); first += cut.at_once) {
    const int last = std::min(first + cut.at_once, chunks.segments());
    for (int turn = 0; turn < 2 * (ranks - 1); ++turn) {
      for (int segment = first; segment < last; ++segment) {
        add_turn(schedule, chunks, rank, ranks, turn, segment);
      }
    }
  }
  return schedule;
}

Schedule ring_reduce_scatter(const Parts& parts, Rank rank) {
  const int ranks = parts.size();
  const auto [left, right] = neighbours_of(rank, ranks);
  const Block own = parts.alone(Buffer::kOutput, rank);
  const std::size_t slot_bytes = parts.largest_bytes();
  // The summing lap of ring_allreduce() with the input untouched: a chunk is summed in one scratch
  // slot while the chunk of the turn before leaves from the other; the last is summed in the
  // output.
  const auto sum_of_turn = [&](int turn) {
    if (turn == ranks - 2) return own;
    return Block{.buffer = Buffer::kScratch,
                 .offset_bytes = static_cast<std::size_t>(turn % 2) * slot_bytes,
                 .bytes = parts.block(Buffer::kInput, wrap(rank - 2 - turn, ranks)).bytes};
  };
  Schedule schedule;
  if (ranks > 2) schedule.need_scratch(2 * slot_bytes);
  for (int turn = 0; turn < ranks - 1; ++turn) {
    const auto message = static_cast<std::uint32_t>(turn);
    const Block sum = sum_of_turn(turn);
    schedule.begin_step();
    schedule.copy(parts.block(Buffer::kInput, wrap(rank - 2 - turn, ranks)), sum);
    schedule.send(right, message,
                  turn == 0 ? parts.block(Buffer::kInput, left) : sum_of_turn(turn - 1));
    schedule.combine(left, message, sum);
  }
  schedule.begin_step();
  if (ranks == 1) schedule.copy(parts.block(Buffer::kInput, rank), own);
  schedule.divide(own);
  return schedule;
}

// Turn t sends chunk own-t to the right and receives chunk own-1-t. The first chunk sent is the own
// one, every other one arrived a turn earlier.
Schedule ring_allgather(const Parts& parts, Rank rank) {
  const int ranks = parts.size();
  const auto [left, right] = neighbours_of(rank, ranks);
  const Block own = parts.block(Buffer::kOutput, rank);
  Schedule schedule;
  schedule.begin_step();
  schedule.copy(parts.alone(Buffer::kInput, rank), own);
  for (int turn = 0; turn < ranks - 1; ++turn) {
    const auto message = static_cast<std::uint32_t>(turn);
    if (turn > 0) schedule.begin_step();
    schedule.send(right, message, parts.block(Buffer::kOutput, wrap(rank - turn, ranks)));
    schedule.receive(left, message, parts.block(Buffer::kOutput, wrap(rank - 1 - turn, ranks)));
  }
  return schedule;
}

}  // namespace tally::collective
