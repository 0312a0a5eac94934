#include "collective/barrier.h"

#include "base/check.h"
#include "collective/layout.h"

namespace tally::collective {

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
