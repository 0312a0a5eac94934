#include "sim/cluster.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "base/check.h"
#include "collective/communicator.h"
#include "collective/context.h"

namespace tally::sim {
namespace {

// Address space per rank, not memory.
constexpr std::size_t kArenaBytes = std::size_t{4} << 30;

// The ranks of a host, from `first` on.
class SimulatedProcesses final : public net::Segment::Processes {
 public:
  SimulatedProcesses(Network& network, Rank first) : network_(network), first_(first) {}
  void wake(int member) override { network_.wake(first_ + member); }
  bool has_ended(int member) override { return network_.death(first_ + member).has_value(); }

 private:
  Network& network_;
  const Rank first_;
};

// Threads that are started while the object lives stay on the core of this thread. The ranks of a
// simulation take turns, so more cores would not help, and to pass a turn to another core takes
// three times as long.
class OneCore final {
 public:
  OneCore() : is_known_(::sched_getaffinity(0, sizeof(before_), &before_) == 0) {
    const int core = ::sched_getcpu();
    if (!is_known_ || core < 0) return;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(static_cast<std::size_t>(core), &only);
    ::sched_setaffinity(0, sizeof(only), &only);
  }
  ~OneCore() {
    if (is_known_) ::sched_setaffinity(0, sizeof(before_), &before_);
  }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  cpu_set_t before_{};
  const bool is_known_;
};

}  // namespace

Member::Member(Network& network, Rank rank, const ClusterOptions& options, const HostMemory& host)
    : network_(network),
      timeout_(options.timeout),
      area_(host.area),
      context_(std::make_shared<collective::Context>()) {
  auto transport = std::make_unique<SimTransport>(network, rank);
  transport_ = transport.get();
  context_->clock = std::shared_ptr<const Clock>(std::shared_ptr<void>(), &network.clock());
  context_->transport = std::move(transport);
  context_->router = std::make_unique<net::Router>(*context_->transport, *context_->clock);
  context_->rank = rank;
  context_->segment = host.segment;
  for (Rank other = 0; other < network.size(); ++other) {
    context_->host_of.push_back(other / options.ranks_per_host);
    context_->in_host.push_back(other % options.ranks_per_host);
  }
  context_->operation_timeout = timeout_;
  context_->spins = 0;
  context_->started = std::make_unique<collective::StartedOperations>(*context_->router);
}

Member::~Member() = default;

Communicator& Member::communicator() {
  if (!world_) world_ = collective::make_world(context_, area_);
  return *world_;
}

void Member::sleep(Duration duration) {
  const Deadline by = clock().after(duration);
  collective::StartedOperations& started = *context_->started;
  while (!by.passed(clock().now())) {
    if (world_ && network_.death(rank())) {
      // The communicators of a killed rank fail before it touches shared memory again.
      const MutexLock lock(context_->router->mutex);
      if (context_->router->progress()) return;
    }
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
    : options_(options), network_(options.ranks, options.seed, options.conditions) {
  TALLY_CHECK(options.ranks_per_host > 0);
}

HostMemory Cluster::memory_of(int host) {
  const Rank first = host * options_.ranks_per_host;
  const int members = std::min(options_.ranks_per_host, options_.ranks - first);
  if (members == 1) return {};
  auto segment = net::Segment::in_process({.members = members, .arena_bytes = kArenaBytes},
                                          std::make_unique<SimulatedProcesses>(network_, first));
  TALLY_CHECK(segment.has_value());
  // While a rank runs all others wait, and what it publishes may end their waits.
  for (int member = 0; member < members; ++member) (*segment)->announce_sleep(member);
  const auto area = (*segment)->allocate(0, collective::SharedArea::bytes_for(members));
  TALLY_CHECK(area.has_value());
  return {.segment = *std::move(segment), .area = *area};
}

Outcome Cluster::run(const std::function<Result<void>(Member&)>& body) {
  Outcome outcome;
  outcome.results.resize(static_cast<std::size_t>(options_.ranks));
  std::vector<HostMemory> hosts;
  for (int host = 0; host * options_.ranks_per_host < options_.ranks; ++host)
    hosts.push_back(memory_of(host));
  Turns& turns = network_.turns();
  {
    std::vector<std::jthread> threads;
    const OneCore one_core;
    for (Rank rank = 0; rank < options_.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        {
          const MutexLock lock(turns.mutex);
          turns.enter(rank);
        }
        {
          Member member(network_, rank, options_,
                        hosts[static_cast<std::size_t>(rank / options_.ranks_per_host)]);
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
