#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sim/network.h"
#include "sim/sim_transport.h"
#include "tally/communicator.h"
#include "tally/error.h"

namespace tally::collective {
struct Context;
}
namespace tally::net {
class Segment;
}

namespace tally::sim {

struct ClusterOptions {
  int ranks = 2;
  // Ranks on a host share memory, and access to it takes no virtual time. The last host may have
  // fewer ranks.
  int ranks_per_host = 1;
  std::uint64_t seed = 1;
  Conditions conditions = {};
  Duration timeout = std::chrono::seconds(30);  // of Member::deadline(), virtual
};

// The memory that the ranks of one simulated host share; none if a rank is alone there.
struct HostMemory {
  std::shared_ptr<net::Segment> segment;  // shared by the ranks and their buffers
  std::byte* area = nullptr;              // of the communicator of all ranks
};

// The argument of a rank's body, which uses either the transport or the communicator over it.
class Member {
 public:
  Member(Network& network, Rank rank, const ClusterOptions& options, const HostMemory& host);
  ~Member();

  Rank rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  const Clock& clock() const { return network_.clock(); }
  // Now plus the cluster's timeout.
  Deadline deadline() const { return clock().after(timeout_); }

  SimTransport& transport() { return *transport_; }
  // All ranks, made by the first call. No communicator of this rank has a
  // thread: started operations of all of them progress while this rank waits for an operation or
  // sleeps, and when it polls a handle.
  Communicator& communicator();

  // Lets virtual time pass, as computation of this rank would. Started operations progress.
  void sleep(Duration duration);

  // Says goodbye.
  void leave();

 private:
  Network& network_;
  const Duration timeout_;
  std::byte* const area_;
  SimTransport* transport_;                       // the context's
  std::shared_ptr<collective::Context> context_;  // shared with the communicators
  std::unique_ptr<Communicator> world_;
};

// The outcome of a run: one result for each rank.
struct Outcome {
  std::vector<Result<void>> results;
  TimePoint ended{};         // virtual time at the end of the last rank
  std::uint64_t digest = 0;  // of all traffic: the same script and seed give the same

  const Result<void>& operator[](Rank rank) const {
    return results[static_cast<std::size_t>(rank)];
  }
};

// A whole job in this process, in virtual time: the same seed and script give the same run.
class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);

  // The script of faults, before run().
  void kill(const Kill& fault) { network_.kill(fault); }
  void cut(const Cut& fault) { network_.cut(fault); }
  void stop(const Stop& fault) { network_.stop(fault); }
  void corrupt(const Corrupt& fault) { network_.corrupt(fault); }
  void delay(const Delay& fault) { network_.delay(fault); }

  // Runs `body` on every rank, once. A rank whose body has returned says goodbye, unless it was
  // killed. Returns when all bodies have; bodies of killed ranks, and of ranks that wait forever,
  // end because their transport loses all peers.
  Outcome run(const std::function<Result<void>(Member&)>& body);

 private:
  HostMemory memory_of(int host);

  const ClusterOptions options_;
  Network network_;
};

}  // namespace tally::sim
