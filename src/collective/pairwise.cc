#include "collective/pairwise.h"

#include "base/check.h"

namespace tally::collective {

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

}  // namespace tally::collective
