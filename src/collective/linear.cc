#include "base/check.h"
#include "collective/algorithms.h"

namespace tally::collective {
namespace {

// One message between the root and every other rank; `to_root` gathers, otherwise it scatters. A
// rank's own part lies in `alone`, all parts lie in `all` at the root.
Schedule linear(const Parts& parts, Rank root, Rank rank, bool to_root) {
  const int ranks = parts.size();
  TALLY_CHECK(0 <= rank && rank < ranks && 0 <= root && root < ranks);
  const Buffer all = to_root ? Buffer::kOutput : Buffer::kInput;
  const Block own = parts.alone(to_root ? Buffer::kInput : Buffer::kOutput, rank);
  Schedule schedule;
  schedule.begin_step();
  const auto exchange = [&](Rank peer, const Block& block, bool sends) {
    if (sends) {
      schedule.send(peer, 0, block);
    } else {
      schedule.receive(peer, 0, block);
    }
  };
  if (rank != root) {
    exchange(root, own, to_root);
    return schedule;
  }
  const Block at_root = parts.block(all, root);
  schedule.copy(to_root ? own : at_root, to_root ? at_root : own);
  for (Rank peer = 0; peer < ranks; ++peer)
    if (peer != root) exchange(peer, parts.block(all, peer), !to_root);
  return schedule;
}

}  // namespace

Schedule linear_gather(const Parts& parts, Rank root, Rank rank) {
  return linear(parts, root, rank, true);
}

Schedule linear_scatter(const Parts& parts, Rank root, Rank rank) {
  return linear(parts, root, rank, false);
}

Schedule pairwise_all_to_all(const Parts& to_send, const Parts& to_receive, Rank rank) {
  const int ranks = to_send.size();
  TALLY_CHECK(to_receive.size() == ranks);
  TALLY_CHECK(0 <= rank && rank < ranks);
  Schedule schedule;
  schedule.begin_step();
  schedule.copy(to_send.block(Buffer::kInput, rank), to_receive.block(Buffer::kOutput, rank));
  for (int distance = 1; distance < ranks; ++distance) {
    const Rank to = wrap(rank + distance, ranks);
    const Rank from = wrap(rank - distance, ranks);
    if (distance > 1) schedule.begin_step();
    schedule.send(to, 0, to_send.block(Buffer::kInput, to));
    schedule.receive(from, 0, to_receive.block(Buffer::kOutput, from));
  }
  return schedule;
}

// After round k a rank knows, directly or through others, that the 2^(k+1) - 1 ranks before it have
// entered.
Schedule dissemination_barrier(Rank rank, int ranks) {
  TALLY_CHECK(0 <= rank && rank < ranks);
  Schedule schedule;
  std::uint32_t round = 0;
  for (int distance = 1; distance < ranks; distance *= 2, ++round) {
    schedule.begin_step();
    schedule.send(wrap(rank + distance, ranks), round, Block{});
    schedule.receive(wrap(rank - distance, ranks), round, Block{});
  }
  return schedule;
}

}  // namespace tally::collective
