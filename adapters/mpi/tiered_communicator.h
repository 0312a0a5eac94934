#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "adapters/mpi/serial_queue.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "collective/watchable.h"
#include "base/recorder.h"
#include "tally/communicator.h"

namespace tally::mpi {

// A Communicator over several hosts, made of others: one of the ranks of this host, which share
// memory, and ones that reach all hosts. An all-reduce is cut into lanes, as many as the smallest
// host has ranks: inside each host every lane's rank reduces its slice, the same lanes of all hosts
// all-reduce their slices, and inside the host the slices are spread again, so that a slice crosses
// between hosts once per host and direction. Everything else, and what is small, goes by the
// communicator of all ranks. Failures and deadlines are those of the communicators that it is made
// of. kAuto and, for all-reduce, kHierarchical are the algorithms.
class TieredCommunicator final : public Communicator {
 public:
  struct Options {
    Duration operation_timeout{0};
    // All-reduces of less go by the communicator of all ranks.
    std::size_t least_bytes = 0;
    // Whether a thread of ours may drive operations; otherwise start() completes them before it
    // returns.
    bool threads = true;
    // What ended all communicators of the job, if something did: said in place of what the parts
    // say then.
    std::function<std::optional<Error>()> over = [] { return std::nullopt; };
  };

  // Called by all ranks of `all`. `inside` has the ranks of this host, in the same order. Both are
  // shared with whatever they live in, such as the Job whose world `inside` is.
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

  // Reports about this rank tell of this communicator as the world from now on. Once.
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

  const std::shared_ptr<Communicator> all_;
  const std::shared_ptr<Communicator> inside_;
  const Options options_;
  const SteadyClock clock_;
  std::unique_ptr<Communicator> points_;  // all ranks, for messages beside collectives
  std::unique_ptr<Communicator> across_;  // this lane on all hosts; null if this rank has no lane
  int lanes_ = 1;
  SharedBuffer scratch_;
  std::vector<std::byte> plain_scratch_;  // where shared memory is used up
  Recorder recorder_;
  std::uint32_t sequence_ = 0;
  std::atomic<std::uint64_t> operations_{0};
  std::atomic<bool> closed_{false};
  mutable Mutex mutex_;
  std::optional<Error> failure_ TALLY_GUARDED_BY(mutex_);
  std::shared_ptr<collective::Watchable> watched_;  // shared with the job; null: nobody watches
  std::vector<Rank> members_;                       // the job's rank of each rank
  std::unique_ptr<SerialQueue> queue_;              // made by the first start()
};

}  // namespace tally::mpi
