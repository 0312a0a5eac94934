#include "collective/algorithms.h"

#include "base/check.h"

namespace tally::collective {
namespace {

struct Neighbours {
  Rank left;
  Rank right;
};

Neighbours neighbours_of(Rank rank, int ranks) {
  TALLY_CHECK(0 <= rank && rank < ranks);
  return {.left = wrap(rank - 1, ranks), .right = wrap(rank + 1, ranks)};
}

// Chunk numbers are modulo N; each rank's own chunk has its number.
//   Gathering lap, turn t: send chunk own-t to the right, receive chunk own-1-t. The first chunk
//   sent is the own one, every other one arrived a turn earlier.
// `prepare` is what the first turn does before it sends.
template <typename Prepare>
void gathering_lap(Schedule& schedule, const Parts& parts, Rank own, std::uint32_t first_message,
                   Prepare prepare) {
  const int ranks = parts.size();
  const auto [left, right] = neighbours_of(own, ranks);
  for (int turn = 0; turn < ranks - 1; ++turn) {
    const std::uint32_t message = first_message + static_cast<std::uint32_t>(turn);
    schedule.begin_step();
    if (turn == 0) prepare();
    schedule.send(right, message, parts.block(Buffer::kOutput, wrap(own - turn, ranks)));
    schedule.receive(left, message, parts.block(Buffer::kOutput, wrap(own - 1 - turn, ranks)));
  }
}

}  // namespace

Schedule ring_allreduce(const Vector& vector, Rank rank, int ranks) {
  const auto [left, right] = neighbours_of(rank, ranks);
  const Parts parts = Parts::split(vector, ranks);
  Schedule schedule;
  if (ranks == 1) {
    schedule.begin_step();
    schedule.copy(whole(Buffer::kInput, vector), whole(Buffer::kOutput, vector));
    schedule.divide(whole(Buffer::kOutput, vector));
    return schedule;
  }
  // Summing lap, turn t: send chunk own-1-t to the right, add the arriving chunk own-2-t. The
  // last turn (t = N-2) adds to chunk own: this rank finishes it, and starts the gathering lap.
  for (int turn = 0; turn < ranks - 1; ++turn) {
    const auto message = static_cast<std::uint32_t>(turn);
    schedule.begin_step();
    if (turn == 0) {
      schedule.copy(whole(Buffer::kInput, vector), whole(Buffer::kOutput, vector));
    }
    schedule.send(right, message, parts.block(Buffer::kOutput, wrap(rank - 1 - turn, ranks)));
    schedule.combine(left, message, parts.block(Buffer::kOutput, wrap(rank - 2 - turn, ranks)));
  }
  gathering_lap(schedule, parts, rank, static_cast<std::uint32_t>(ranks - 1),
                [&] { schedule.divide(parts.block(Buffer::kOutput, rank)); });
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

Schedule ring_allgather(const Parts& parts, Rank rank) {
  TALLY_CHECK(0 <= rank && rank < parts.size());
  const Block input = parts.alone(Buffer::kInput, rank);
  const Block own = parts.block(Buffer::kOutput, rank);
  Schedule schedule;
  if (parts.size() == 1) {
    schedule.begin_step();
    schedule.copy(input, own);
    return schedule;
  }
  gathering_lap(schedule, parts, rank, 0, [&] { schedule.copy(input, own); });
  return schedule;
}

}  // namespace tally::collective
