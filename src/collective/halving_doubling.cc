#include "collective/algorithms.h"

#include <bit>

#include "base/check.h"

namespace tally::collective {
namespace {

// The first 2 * folded ranks form pairs: the even rank of each pair sends its vector to the odd one
// and is then idle. The remaining ranks are active: a power of two, renumbered from 0.
struct Folding {
  int active = 1;
  int folded = 0;

  bool sits_out(Rank rank) const { return rank < 2 * folded && rank % 2 == 0; }
  bool stands_in(Rank rank) const { return rank < 2 * folded && rank % 2 == 1; }
  int active_number(Rank rank) const { return rank < 2 * folded ? rank / 2 : rank - folded; }
  Rank rank_of(int number) const { return number < folded ? 2 * number + 1 : number + folded; }
};

Folding fold(int ranks) {
  const int active = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  return {.active = active, .folded = ranks - active};
}

// Both run over the chunks of the active ranks; `message` counts the rounds.
//
// Halving: the ranks of a block of 2d share a range of 2d chunks. Each exchanges with the rank d
// away the half that is the other's, and adds the half that is its own. The last round leaves each
// with its own chunk. The first round belongs to the current step, which may have copied the input.
void halve(Schedule& schedule, const Parts& parts, const Folding& folding, int own,
           std::uint32_t& message) {
  for (int distance = folding.active / 2; distance >= 1; distance /= 2) {
    const int partner = own ^ distance;
    const int mine = own & ~(distance - 1);
    const int theirs = partner & ~(distance - 1);
    const Rank peer = folding.rank_of(partner);
    if (distance < folding.active / 2) schedule.begin_step();
    schedule.send(peer, message, parts.blocks(Buffer::kOutput, theirs, theirs + distance));
    schedule.combine(peer, message, parts.blocks(Buffer::kOutput, mine, mine + distance));
    ++message;
  }
}

// Doubling: the same exchanges in reverse; each rank sends its finished range, which doubles each
// round.
void doubling(Schedule& schedule, const Parts& parts, const Folding& folding, int own,
              std::uint32_t& message) {
  for (int distance = 1; distance < folding.active; distance *= 2) {
    const int partner = own ^ distance;
    const int mine = own & ~(distance - 1);
    const int theirs = partner & ~(distance - 1);
    const Rank peer = folding.rank_of(partner);
    schedule.begin_step();
    if (distance == 1) schedule.divide(parts.block(Buffer::kOutput, own));
    schedule.send(peer, message, parts.blocks(Buffer::kOutput, mine, mine + distance));
    schedule.receive(peer, message, parts.blocks(Buffer::kOutput, theirs, theirs + distance));
    ++message;
  }
}

}  // namespace

Schedule halving_doubling_allreduce(const Vector& vector, Rank rank, int ranks) {
  TALLY_CHECK(0 <= rank && rank < ranks);
  const Folding folding = fold(ranks);
  const Block input = whole(Buffer::kInput, vector);
  const Block output = whole(Buffer::kOutput, vector);
  const std::uint32_t fold_message = 0;
  const auto unfold_message =
      1 + 2 * static_cast<std::uint32_t>(std::countr_zero(static_cast<unsigned>(folding.active)));

  Schedule schedule;
  schedule.begin_step();
  if (folding.sits_out(rank)) {
    schedule.send(rank + 1, fold_message, input);
    schedule.begin_step();
    schedule.receive(rank + 1, unfold_message, output);
    return schedule;
  }
  schedule.copy(input, output);
  if (ranks == 1) {
    schedule.divide(output);
    return schedule;
  }
  if (folding.stands_in(rank)) {
    schedule.combine(rank - 1, fold_message, output);
    schedule.begin_step();
  }
  const Parts parts = Parts::split(vector, folding.active);
  const int own = folding.active_number(rank);
  std::uint32_t message = fold_message + 1;
  halve(schedule, parts, folding, own, message);
  doubling(schedule, parts, folding, own, message);
  if (folding.stands_in(rank)) {
    schedule.begin_step();
    schedule.send(rank - 1, unfold_message, output);
  }
  return schedule;
}

}  // namespace tally::collective
