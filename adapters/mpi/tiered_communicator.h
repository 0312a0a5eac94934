#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/recorder.h"
#include "collective/operation_queue.h"
#include "collective/topology.h"
#include "collective/watchable.h"
#include "tally/communicator.h"

namespace tally::mpi {

// A Communicator over several hosts, made of others: one for the ranks of this host, which share
// memory, and some that reach all hosts. An all-reduce has as many lanes as the smallest host has
// ranks. Each lane's rank reduces its slice inside the host, all-reduces it with the same lane of
// the other hosts, and all-gathers the slices inside the host. So a slice crosses between hosts
// once per host and direction. Small all-reduces and all other operations use the communicator of
// all ranks. Failures and deadlines are those of the communicators inside. The algorithms are kAuto
// and, for all-reduce, kHierarchical.
class TieredCommunicator final : public Communicator, private collective::OperationQueue::Runner {
 public:
  struct Options {
    Duration operation_timeout{0};
    // Smaller all-reduces use the communicator of all ranks.
    std::size_t least_bytes = 0;
    // Whether other threads may run operations; otherwise start() completes them before it returns.
    bool threads = true;
    // The error that ended all communicators of the job, if there is one. It replaces the errors
    // that the communicators inside return then.
    std::function<std::optional<Error>()> over = [] { return std::nullopt; };
  };

  // Called by all ranks of `all`. `inside` has the ranks of this host, in the same order. Both are
  // shared with their owners, such as the Job whose world `inside` is.
  static Result<std::unique_ptr<TieredCommunicator>> make(std::shared_ptr<Communicator> all,
                                                          std::shared_ptr<Communicator> inside,
                                                          const Options& options, Deadline by);
  ~TieredCommunicator() override;

  Rank rank() const override { return all_->rank(); }
  int size() const override { return all_->size(); }
  Result<void> run(const Request& request) override;
  Handle start(const Request& request) override;
  Result<SharedBuffer> allocate(std::size_t bytes) override { return inside_->allocate(bytes); }
  Result<std::vector<std::span<std::byte>>> share(const SharedBuffer& buffer, Deadline by) override;
  Result<std::unique_ptr<Communicator>> split(int colour, int key, Deadline by) override;
  void close() override;
  Traffic traffic() const override;
  std::string recent_operations() const override;

  // Makes this communicator the world in the reports about this rank. Once.
  void be_watched(std::shared_ptr<collective::Watchable> rank);

 private:
  TieredCommunicator(std::shared_ptr<Communicator> all, std::shared_ptr<Communicator> inside,
                     const Options& options);
  Result<void> connect(Deadline by);
  Result<void> admit(const Request& request) const;
  bool goes_by_lanes(const Request& request) const;
  Result<void> run_here(const Request& request);
  Result<void> allreduce(const Request& request);
  std::byte* scratch(std::size_t bytes);
  Request with_deadline(const Request& request) const;

  class Active;  // a collective that the queue's thread runs to its end
  Deadline deadline_of(const Request& request) const override;
  Result<std::unique_ptr<collective::OperationQueue::Operation>> prepare(const Request& request,
                                                                         Deadline by) override;
  void rest(collective::OperationQueue& /*queue*/,
            const std::list<collective::OperationQueue::Item>& /*running*/,
            int /*looks*/) override {}

  const std::shared_ptr<Communicator> all_;
  const std::shared_ptr<Communicator> inside_;
  const Options options_;
  const SteadyClock clock_;
  std::unique_ptr<Communicator> points_;  // all ranks, for messages beside collectives
  std::unique_ptr<Communicator> across_;  // this lane on all hosts; null if this rank has no lane
  collective::Topology topology_;
  SharedBuffer scratch_;
  std::vector<std::byte> plain_scratch_;  // used when shared memory is exhausted
  Recorder recorder_;
  std::uint32_t sequence_ = 0;
  std::atomic<std::uint64_t> operations_{0};
  std::atomic<bool> closed_{false};
  mutable Mutex mutex_;
  std::optional<Error> failure_ TALLY_GUARDED_BY(mutex_);
  std::shared_ptr<collective::Watchable> watched_;     // shared with the job; null: not watched
  std::vector<Rank> members_;                          // the job's rank of each rank
  std::unique_ptr<collective::OperationQueue> queue_;  // made by the first start()
};

}  // namespace tally::mpi
