#include "sim/cluster.h"

#include <thread>

namespace tally::sim {

Cluster::Cluster(const ClusterOptions& options)
    : options_(options), network_(options.ranks, options.seed, options.conditions) {}

Outcome Cluster::run(const std::function<Result<void>(Member&)>& body) {
  Outcome outcome;
  outcome.results.resize(static_cast<std::size_t>(options_.ranks));
  Turns& turns = network_.turns();
  {
    std::vector<std::jthread> threads;
    for (Rank rank = 0; rank < options_.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        {
          const MutexLock lock(turns.mutex);
          turns.enter(rank);
        }
        {
          Member member(network_, rank, options_.timeout);
          outcome.results[static_cast<std::size_t>(rank)] = body(member);
          member.leave();
        }
        const MutexLock lock(turns.mutex);
        turns.leave(rank);
      });
    }
  }
  outcome.ended = network_.clock().now();
  outcome.digest = network_.digest();
  return outcome;
}

}  // namespace tally::sim
