#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "exchange/group/backup_round.h"
#include "exchange/group/group_update.h"
#include "tally/communicator.h"

namespace tally::exchange {

// Steps of a GroupUpdate in which only the first gradients count. Every rank has a thread here
// that takes part in all updates, so that the slice of a rank that still computes is updated
// meanwhile. Rank 0 decides which gradients count, by the order in which offers reach it, and
// broadcasts each decision.
//
//   version() -> compute at the parameters of that version -> exchange()     in a loop on each rank
//
// The parameters change while a straggler computes; its gradient does not count. A gradient that
// counts was computed at parameters that did not change meanwhile. Ranks are not in step: each rank
// reads the progress of the job from version(). The thread uses `world` and the update whenever
// enough other ranks have made an offer. The caller must therefore use `world` for nothing else,
// and may use the update only while all ranks have met at one version and no rank has made an offer
// since. Threads: exchange(), catch_up() and drain() must not overlap; other calls from any thread.
class BackupExchange final {
 public:
  struct Offer {
    std::uint64_t version = 0;  // of the parameters that the gradients were computed at
    StepContribution contribution;
    std::vector<double> sums;   // as in GroupUpdate::complete()
    std::vector<double> rates;  // by group; the lowest rank that counts sets the learning rates
    std::vector<std::size_t> ready;  // parameters that have a gradient
  };
  struct Taken {
    std::uint64_t version = 0;  // the current one
    bool counted = false;
    UpdateTotals totals;  // of the newest update
  };

  // Called by all ranks. `needed` gradients make an update.
  static Result<std::unique_ptr<BackupExchange>> make(Communicator& world, GroupUpdate& update,
                                                      int needed, Deadline by);
  ~BackupExchange();
  BackupExchange(const BackupExchange&) = delete;
  BackupExchange& operator=(const BackupExchange&) = delete;

  // Updates so far. The parameters have all values of this version.
  std::uint64_t version() const;
  // Offers the gradients in the update's memory, and waits for a newer version than offer.version.
  // Returns at once if there is one already. The caller may then write the memory again.
  Result<Taken> exchange(const Offer& offer, Deadline by);
  // Waits until this rank has reached `version`, which another rank has reached.
  Result<void> catch_up(std::uint64_t version, Deadline by);
  // This rank has no more data. Returns when all ranks have called drain().
  Result<void> drain(Deadline by);

 private:
  BackupExchange(Communicator& world, GroupUpdate& update, int needed);
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
  GroupUpdate& update_;
  const std::size_t groups_;
  // Two communicators, for offers to rank 0 and for its decisions: neither waits for the other, nor
  // for updates.
  std::unique_ptr<Communicator> offers_;
  std::unique_ptr<Communicator> decisions_;
  std::vector<std::vector<double>> incoming_;  // rank 0: by peer

  mutable Mutex mutex_;
  ConditionVariable changed_;
  BackupRound round_ TALLY_GUARDED_BY(mutex_);                       // rank 0: which ranks count
  std::vector<std::vector<double>> rates_ TALLY_GUARDED_BY(mutex_);  // rank 0: offered, by rank
  std::optional<Offer> offer_ TALLY_GUARDED_BY(mutex_);
  std::uint64_t version_ TALLY_GUARDED_BY(mutex_) = 0;
  std::uint64_t drains_ TALLY_GUARDED_BY(mutex_) = 0;  // times that all ranks had drained
  std::optional<std::uint64_t> counted_at_ TALLY_GUARDED_BY(mutex_);  // last version counted
  UpdateTotals totals_ TALLY_GUARDED_BY(mutex_);
  std::optional<Error> failure_ TALLY_GUARDED_BY(mutex_);
  bool stopping_ TALLY_GUARDED_BY(mutex_) = false;
  int listening_ TALLY_GUARDED_BY(mutex_) = 0;  // callbacks that are about to call listen()
  std::jthread thread_;
};

}  // namespace tally::exchange
