#pragma once
#include <mpi.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/mpi/mpi_operation.h"
#include "adapters/mpi/mpi_process.h"
#include "adapters/mpi/mpi_types.h"
#include "adapters/mpi/polling.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/recorder.h"
#include "collective/operation_queue.h"
#include "collective/watchable.h"
#include "tally/communicator.h"

namespace tally::mpi {

// State that all communicators of one job share.
struct MpiContext : collective::Watchable {
  MpiProcess* process = nullptr;
  MpiOps ops;
  SteadyClock clock;
  Duration operation_timeout{0};
  // Polls without a pause; 0 where ranks share processors.
  int spins = 0;
  // The most elements of one MPI call; less than INT_MAX only in tests of larger operations.
  std::size_t most_elements = 0;
  // Number of the next communicator that a split makes, as far as this rank knows.
  std::atomic<std::int32_t> next_channel{1};
};

// The Communicator over MPI. Every operation is made of non-blocking MPI calls and polled until it
// completes or its deadline passes. All-reduces run our schedules over MPI messages; the other
// collectives are the library's own.
//
// MPI limits what it can do:
//   - At a deadline it does not name the missing rank.
//   - Ranks that disagree about an operation are detected only by messages of another length.
//   - A collective cannot be cancelled: one that is given up ends all communicators of the process.
//   - traffic() counts operations only, because MPI does not tell what it sends.
//   - Any algorithm but kAuto is kInvalid.
//   - In the library's collectives, minimum and maximum of NaN are the library's.
//   - If the program initialised MPI below MPI_THREAD_SERIALIZED, no other thread may call MPI:
//     start() then completes the operation before it returns.
class MpiCommunicator final : public Communicator, private collective::OperationQueue::Runner {
 public:
  // A communicator of all ranks, which all of them call. It waits for all ranks first, because the
  // calls that duplicate MPI_COMM_WORLD know no deadline.
  static Result<std::unique_ptr<MpiCommunicator>> world(std::shared_ptr<MpiContext> context,
                                                        Deadline by);
  ~MpiCommunicator() override;

  Rank rank() const override { return scene_.site.rank; }
  int size() const override { return scene_.site.ranks; }
  Result<void> run(const Request& request) override;
  Handle start(const Request& request) override;
  Result<SharedBuffer> allocate(std::size_t bytes) override;
  Result<std::vector<std::span<std::byte>>> share(const SharedBuffer& buffer, Deadline by) override;
  Result<std::unique_ptr<Communicator>> split(int colour, int key, Deadline by) override;
  void close() override;
  Traffic traffic() const override;
  std::string recent_operations() const override;

  // Makes this communicator part of the reports about this rank; channel 0 is the world. Once.
  void be_watched(std::uint32_t channel);

 private:
  class Active;  // an operation in progress

  // Owns `comm` and makes the second one. The caller owns `comm` again after an error.
  static Result<std::unique_ptr<MpiCommunicator>> adopt(std::shared_ptr<MpiContext> context,
                                                        MPI_Comm comm, std::string name);
  MpiCommunicator(std::shared_ptr<MpiContext> context, const Scene& scene,
                  std::vector<Rank> members, std::string name);
  Result<std::int32_t> agree_on_channel(Deadline by);
  std::optional<Error> failure() const;
  Error why_unusable() const;
  Result<void> admit(const Request& request) const;
  Result<void> poll_until_complete(Active& active);
  // Pauses after a fruitless poll of operations of at most `bytes`; see rest_after(). `since` is
  // when `looks` was 0.
  Rest pause_after(int looks, TimePoint since, std::size_t bytes);

  Deadline deadline_of(const Request& request) const override;
  Result<std::unique_ptr<collective::OperationQueue::Operation>> prepare(const Request& request,
                                                                         Deadline by) override;
  void rest(collective::OperationQueue& queue,
            const std::list<collective::OperationQueue::Item>& running, int looks) override;

  const std::shared_ptr<MpiContext> context_;  // shared: each communicator may outlive the others
  const Scene scene_;
  const std::vector<Rank> members_;  // the job's rank of each rank
  MpiOperation collective_;          // the collective in progress: there is one at a time
  const std::string name_;
  Recorder recorder_;
  std::uint32_t sequence_ = 0;
  std::optional<std::uint32_t> channel_;  // in the registry
  std::atomic<std::uint64_t> operations_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  std::optional<Error> failure_ TALLY_GUARDED_BY(mutex_);
  TimePoint resting_since_{};                          // of the queue's thread
  std::unique_ptr<collective::OperationQueue> queue_;  // made by the first start()
};

}  // namespace tally::mpi
