#include "sim/cluster.h"

#include <thread>

#include "collective/communicator.h"
#include "collective/context.h"

namespace tally::sim {

Member::Member(Network& network, Rank rank, Duration timeout)
    : network_(network), timeout_(timeout), context_(std::make_shared<collective::Context>()) {
  auto transport = std::make_unique<SimTransport>(network, rank);
  transport_ = transport.get();
  context_->clock = std::shared_ptr<const Clock>(std::shared_ptr<void>(), &network.clock());
  context_->transport = std::move(transport);
  context_->router = std::make_unique<net::Router>(*context_->transport, *context_->clock);
  context_->rank = rank;
  for (int host = 0; host < network.size(); ++host) {
    context_->host_of.push_back(host);
    context_->in_host.push_back(0);
  }
  context_->operation_timeout = timeout;
  context_->spins = 0;
  context_->started = std::make_unique<collective::StartedOperations>(*context_->router);
}

Member::~Member() = default;

Communicator& Member::communicator() {
  if (!world_) world_ = collective::make_world(context_, nullptr);
  return *world_;
}

void Member::sleep(Duration duration) {
  const Deadline by = clock().after(duration);
  collective::StartedOperations& started = *context_->started;
  while (!by.passed(clock().now())) {
    if (started.idle()) {
      network_.pause(rank(), by);  // arriving frames do not end the sleep
    } else if (!started.advance()) {
      started.rest(by);
    }
  }
}

void Member::leave() {
  if (world_) world_->close();
  const MutexLock lock(context_->router->mutex);
  context_->left = true;
  transport_->close();
}

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
