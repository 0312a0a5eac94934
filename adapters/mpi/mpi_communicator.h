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
#include "base/clock.h"
#include "base/mutex.h"
#include "collective/watchable.h"
#include "base/recorder.h"
#include "tally/communicator.h"

namespace tally::mpi {

class MpiQueue;

// What all communicators of one job have in common.
struct MpiContext : collective::Watchable {
  MpiProcess* process = nullptr;
  MpiOps ops;
  SteadyClock clock;
  Duration operation_timeout{0};
  int spins = 0;
  // The most elements of one MPI call; less than INT_MAX only in tests of larger operations.
  std::size_t most_elements = 0;
  // Of the next communicator that a split makes, so far as this rank knows.
  std::atomic<std::int32_t> next_channel{1};
};

// The Communicator over MPI. Collectives are the library's own non-blocking ones, looked at until
// they are complete or their deadline has passed. What MPI cannot do: at a deadline it does not say
// who is missing; ranks that disagree about an operation are found out only where a message is
// longer than what waits for it; and a collective cannot be withdrawn, so that one that is given up
// ends all communicators of the process. traffic() counts operations only: MPI does not tell what
// it sends. Algorithms are the library's choice: any but kAuto is kInvalid. Minimum and maximum of
// NaN are as the library has them. Where the program initialised MPI below MPI_THREAD_SERIALIZED no
// thread of ours may call it: start() then completes the operation before it returns.
class MpiCommunicator final : public Communicator {
 public:
  // Two duplicates of MPI_COMM_WORLD, made when all ranks are known to be here. Called by all of
  // them.
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

  // Reports about this rank tell of this communicator from now on; 0 is the world. Once.
  void be_watched(std::uint32_t channel);

  // The rest is for MpiQueue.

  // Whether `request` may become an operation.
  Result<void> admit(const Request& request) const;
  std::uint64_t record(const Request& request);
  std::unique_ptr<MpiOperation> prepare(const Request& request);
  // Looks at an operation once: complete, or not, or an error, which may be that its deadline
  // passed.
  Result<bool> look(MpiOperation& operation, Deadline by, const Request& request);
  void conclude(MpiOperation& operation, std::uint64_t record, const Result<void>& outcome);
  Deadline deadline_of(const Request& request) const;
  // An operation has been waiting for longer than messages take.
  void note_waiting();
  int spins() const { return context_->spins; }

 private:
  // Takes over `comm` and makes the second one. `comm` is the caller's again on an error.
  static Result<std::unique_ptr<MpiCommunicator>> adopt(std::shared_ptr<MpiContext> context,
                                                        MPI_Comm comm, std::string name);
  MpiCommunicator(std::shared_ptr<MpiContext> context, const Scene& scene,
                  std::vector<Rank> members, std::string name);
  Result<std::int32_t> agree_on_channel(Deadline by);
  std::optional<Error> failure() const;
  Error why_over() const;
  Result<void> drive(MpiOperation& operation, Deadline by, const Request& request);

  const std::shared_ptr<MpiContext> context_;  // shared: each communicator may outlive the others
  const Scene scene_;
  const std::vector<Rank> members_;  // the job's rank of each rank
  const std::string name_;
  Recorder recorder_;
  std::uint32_t sequence_ = 0;
  std::optional<std::uint32_t> channel_;  // in the registry
  std::atomic<std::uint64_t> operations_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  std::optional<Error> failure_ TALLY_GUARDED_BY(mutex_);
  std::unique_ptr<MpiQueue> queue_;  // made by the first start()
};

}  // namespace tally::mpi
