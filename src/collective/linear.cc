#include "collective/linear.h"

#include "base/check.h"

namespace tally::collective {

Schedule linear_gather(const Parts& parts, Rank root, Rank rank) {
  const int ranks = parts.size();
  TALLY_CHECK(0 <= rank && rank < ranks && 0 <= root && root < ranks);
  const Block own = parts.alone(Buffer::kInput, rank);
  Schedule schedule;
  schedule.begin_step();
  if (rank != root) {
    schedule.send(root, 0, own);
    return schedule;
  }
  schedule.copy(own, parts.block(Buffer::kOutput, root));
  for (Rank peer = 0; peer < ranks; ++peer) {
    if (peer != root) schedule.receive(peer, 0, parts.block(Buffer::kOutput, peer));
  }
  return schedule;
}

Schedule linear_scatter(const Parts& parts, Rank root, Rank rank) {
  const int ranks = parts.size();
  TALLY_CHECK(0 <= rank && rank < ranks && 0 <= root && root < ranks);
  const Block own = parts.alone(Buffer::kOutput, rank);
  Schedule schedule;
  schedule.begin_step();
  if (rank != root) {
    schedule.receive(root, 0, own);
    return schedule;
  }
  schedule.copy(parts.block(Buffer::kInput, root), own);
  for (Rank peer = 0; peer < ranks; ++peer) {
    if (peer != root) schedule.send(peer, 0, parts.block(Buffer::kInput, peer));
  }
  return schedule;
}

}  // namespace tally::collective
