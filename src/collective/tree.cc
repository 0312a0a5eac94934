#include "collective/algorithms.h"

#include <bit>

#include "base/check.h"

namespace tally::collective {
namespace {

// Numbers are ranks counted from the root, modulo N. A number's parent is it without its lowest set
// bit; its children are it with one lower bit set. The rounds of a reduction go from bit 0 upwards,
// those of a broadcast downwards. A message is named after its round.
struct TreePlace {
  int number = 0;
  int ranks = 1;
  Rank root = 0;

  Rank rank_of(int other) const { return wrap(other + root, ranks); }
  int rounds() const { return std::bit_width(static_cast<unsigned>(ranks - 1)); }
  // The round in which this rank talks to its parent; the root, which has none, has all rounds.
  int parent_round() const {
    return number == 0 ? rounds() : std::countr_zero(static_cast<unsigned>(number));
  }
  Rank parent() const { return rank_of(number & (number - 1)); }
  bool has_child(int round) const {
    return round < parent_round() && number + (1 << round) < ranks;
  }
  Rank child(int round) const { return rank_of(number + (1 << round)); }
};

TreePlace place_of(Rank rank, int ranks, Rank root) {
  TALLY_CHECK(0 <= rank && rank < ranks);
  TALLY_CHECK(0 <= root && root < ranks);
  return {.number = wrap(rank - root, ranks), .ranks = ranks, .root = root};
}

// Adds all children to `sum`, one to a step so that the order is fixed. Begins in the current step,
// which has prepared `sum`, and leaves in a step that may use it.
void add_children(Schedule& schedule, const TreePlace& place, Block sum) {
  for (int round = 0; place.has_child(round); ++round) {
    schedule.combine(place.child(round), static_cast<std::uint32_t>(round), sum);
    schedule.begin_step();
  }
}

// The farthest child first: it has the most to pass on.
void send_to_children(Schedule& schedule, const TreePlace& place, std::uint32_t first_message,
                      Block data) {
  for (int round = place.parent_round() - 1; round >= 0; --round) {
    if (!place.has_child(round)) continue;
    schedule.begin_step();
    schedule.send(place.child(round), first_message + static_cast<std::uint32_t>(round), data);
  }
}

}  // namespace

Schedule tree_allreduce(const Vector& vector, Rank rank, int ranks) {
  const TreePlace place = place_of(rank, ranks, 0);
  const Block output = whole(Buffer::kOutput, vector);
  const auto up = static_cast<std::uint32_t>(place.parent_round());
  const auto rounds = static_cast<std::uint32_t>(place.rounds());

  Schedule schedule;
  schedule.begin_step();
  schedule.copy(whole(Buffer::kInput, vector), output);
  add_children(schedule, place, output);
  if (place.number == 0) {
    schedule.divide(output);
  } else {
    schedule.send(place.parent(), up, output);
    schedule.begin_step();
    schedule.receive(place.parent(), rounds + up, output);
  }
  send_to_children(schedule, place, rounds, output);
  return schedule;
}

Schedule tree_broadcast(const Vector& vector, Rank root, Rank rank, int ranks) {
  const TreePlace place = place_of(rank, ranks, root);
  const Block output = whole(Buffer::kOutput, vector);

  Schedule schedule;
  schedule.begin_step();
  if (place.number == 0) {
    schedule.copy(whole(Buffer::kInput, vector), output);
  } else {
    schedule.receive(place.parent(), static_cast<std::uint32_t>(place.parent_round()), output);
  }
  send_to_children(schedule, place, 0, output);
  return schedule;
}

Schedule tree_reduce(const Vector& vector, Rank root, Rank rank, int ranks) {
  const TreePlace place = place_of(rank, ranks, root);
  const Block input = whole(Buffer::kInput, vector);
  const bool is_root = place.number == 0;
  const Block sum = is_root              ? whole(Buffer::kOutput, vector)
                    : place.has_child(0) ? whole(Buffer::kScratch, vector)
                                         : input;
  Schedule schedule;
  if (sum.buffer == Buffer::kScratch) schedule.need_scratch(sum.bytes);
  schedule.begin_step();
  if (sum != input) schedule.copy(input, sum);
  add_children(schedule, place, sum);
  if (is_root) {
    schedule.divide(sum);
  } else {
    schedule.send(place.parent(), static_cast<std::uint32_t>(place.parent_round()), sum);
  }
  return schedule;
}

}  // namespace tally::collective
