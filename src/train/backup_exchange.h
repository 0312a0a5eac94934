#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "tally/communicator.h"
#include "train/backup_round.h"
#include "train/sharded_update.h"

namespace tally::train {

// The steps of a ShardedUpdate of which only the first gradients count. Every rank has a thread
// here that takes part in all updates, so that the slice of a rank which still computes is worked
// on meanwhile. Rank 0 decides who counts, by the order in which offers reach it, and tells all.
//
//   version() -> compute at the parameters of that version -> exchange()      again and again on
//   each rank
//
// The parameters change under a rank that is late; its gradient is not counted. One that counts was
// computed at parameters that did not change meanwhile. Ranks are not in step: they find out by
// version() how far the job is. That thread uses `world` and the update whenever others have
// offered enough: `world` is for nothing else, and the update may be used from outside only while
// all ranks have met at one version and none has offered since. Threads: exchange(), catch_up(),
// drain() one at a time; the others from any.
class BackupExchange final {
 public:
  struct Offer {
    std::uint64_t version = 0;  // at which it was computed
    StepContribution contribution;
    std::vector<double> sums;        // as in ShardedUpdate::complete()
    std::vector<double> rates;       // by group; those of the lowest rank that counts are used
    std::vector<std::size_t> ready;  // parameters that have a gradient
  };
  struct Taken {
    std::uint64_t version = 0;  // that is there now
    bool counted = false;
    StepTotals totals;  // of the newest update
  };

  // Called by all ranks. `needed` gradients make an update.
  static Result<std::unique_ptr<BackupExchange>> make(Communicator& world, ShardedUpdate& update,
                                                      int needed, Deadline by);
  ~BackupExchange();
  BackupExchange(const BackupExchange&) = delete;
  BackupExchange& operator=(const BackupExchange&) = delete;

  // Updates so far; all values of this version are there.
  std::uint64_t version() const;
  // Offers the gradients that lie in the update's memory, and waits until there is a newer version
  // than theirs; at once if there is. The memory may be written again then.
  Result<Taken> exchange(const Offer& offer, Deadline by);
  // Waits until this rank has that version, too, which another has seen.
  Result<void> catch_up(std::uint64_t version, Deadline by);
  // This rank has no more data: returns when all ranks have called it.
  Result<void> drain(Deadline by);

 private:
  BackupExchange(Communicator& world, ShardedUpdate& update, int needed);
  void listen(Rank peer);
  void heard(Rank from, const std::vector<double>& words) TALLY_REQUIRES(mutex_);
  Result<void> tell(std::vector<double> words);
  void work();
  std::size_t decision_words() const;
  Result<std::vector<double>> decide();
  Result<std::vector<double>> decision();
  Result<void> take_part(const std::vector<double>& words);
  void fail(const Error& error);
  template <typename Done>
  Result<void> wait_until(Deadline by, const Done& done) TALLY_REQUIRES(mutex_);

  Communicator& world_;
  ShardedUpdate& update_;
  const std::size_t groups_;
  // For offers to rank 0, and for what it decides: neither waits for the other, nor for updates.
  std::unique_ptr<Communicator> offers_;
  std::unique_ptr<Communicator> decisions_;
  std::vector<std::vector<double>> incoming_;  // rank 0: by peer

  mutable Mutex mutex_;
  ConditionVariable changed_;
  BackupRound round_ TALLY_GUARDED_BY(mutex_);                       // rank 0's counts
  std::vector<std::vector<double>> rates_ TALLY_GUARDED_BY(mutex_);  // rank 0: offered, by rank
  std::optional<Offer> offer_ TALLY_GUARDED_BY(mutex_);
  std::uint64_t version_ TALLY_GUARDED_BY(mutex_) = 0;
  std::uint64_t drains_ TALLY_GUARDED_BY(mutex_) = 0;                 // how often all had drained
  std::optional<std::uint64_t> counted_at_ TALLY_GUARDED_BY(mutex_);  // the last one that was
  StepTotals totals_ TALLY_GUARDED_BY(mutex_);
  std::optional<Error> failure_ TALLY_GUARDED_BY(mutex_);
  bool stopping_ TALLY_GUARDED_BY(mutex_) = false;
  int listening_ TALLY_GUARDED_BY(mutex_) = 0;  // calls back that are about to listen on
  std::jthread thread_;
};

}  // namespace tally::train
