#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "exchange/exchange.h"
#include "exchange/group/group_update.h"
#include "policy/round.h"
#include "tally/communicator.h"

namespace tally::exchange {

// Steps of a GroupUpdate in which only the first gradients count (update=backup:B). All ranks take
// part in all updates, also while they compute, so that the slice of a rank that still computes is
// updated meanwhile: serve() does that. Rank 0 decides which gradients count, by the order in which
// offers reach it (policy::Round), and broadcasts each decision.
//
//   version() -> compute at the parameters of that version -> exchange()     in a loop on each rank
//   serve()                                                                  in another thread
//
// A gradient that counts was computed at parameters that did not change meanwhile. The parameters
// of a straggler stay as they are during the next update, but change during the one after that; its
// gradient does not count. Ranks are not in step: each rank reads the progress of the job from
// version(). serve() uses `world` and the update whenever enough other ranks have made an offer.
// The caller must therefore use `world` for nothing else, and may use the update only while all
// ranks have met at one version and no rank has made an offer since. Threads: exchange(),
// catch_up() and drain() must not overlap, and neither must the calls of Background; otherwise any
// thread.
class BackupUpdate final : public Background {
 public:
  struct Offer {
    std::uint64_t version = 0;  // of the parameters that the gradients were computed at
    // The lowest rank that counts sets the learning rates.
    StepContribution contribution = {};
    struct Ready {
      std::size_t parameter = 0;
      const std::byte* elsewhere = nullptr;  // as in GroupUpdate::ready()
    };
    std::vector<Ready> ready = {};  // parameters that have a gradient
  };
  struct Taken {
    std::uint64_t version = 0;  // the current one
    int generation = 0;         // of the memory with that version
    bool counted = false;
    double samples = 0;  // behind the newest update
    double loss_sum = 0;
    bool updated = false;  // as UpdateTotals::updated
  };
  struct Options {
    policy::Rules rules;
    // Called where a call waits for updates, if no other thread calls serve(): the waiting call
    // then takes part in updates itself. Empty: another thread calls serve().
    std::function<void()> pause = {};
  };

  // Called by all ranks. `world` and `update` must outlive this object.
  static Result<std::unique_ptr<BackupUpdate>> make(Communicator& world, GroupUpdate& update,
                                                    const Options& options, Deadline by);
  // serve() must have returned.
  ~BackupUpdate() override;
  BackupUpdate(const BackupUpdate&) = delete;
  BackupUpdate& operator=(const BackupUpdate&) = delete;

  // Updates so far. The parameters have all values of this version.
  std::uint64_t version() const;
  // Offers the gradients in the update's memory, and waits for a newer version than offer.version.
  // Returns at once if there is one already. The caller may then write the memory again.
  Result<Taken> exchange(const Offer& offer, Deadline by);
  // Waits until this rank has reached `version`, which another rank has reached.
  Result<Taken> catch_up(std::uint64_t version, Deadline by);
  // This rank has no more data. Returns when all ranks have called drain().
  Result<Taken> drain(Deadline by);

  Result<bool> serve_once() override;
  Result<void> serve() override;
  void stop() override;

 private:
  BackupUpdate(Communicator& world, GroupUpdate& update, const Options& options);
  void listen(Rank peer);
  void heard(Rank from, const std::vector<double>& words) TALLY_REQUIRES(mutex_);
  void decide() TALLY_REQUIRES(mutex_);
  Result<void> tell(std::vector<double> words);
  std::size_t decision_words() const;
  Result<std::optional<std::vector<double>>> decision();
  Result<void> take_part(const std::vector<double>& words);
  bool fail(const Error& error);
  Taken taken() const TALLY_REQUIRES(mutex_);
  template <typename Done>
  Result<Taken> wait_until(Deadline by, const Done& done);

  Communicator& world_;
  GroupUpdate& update_;
  const Options options_;
  const std::size_t groups_;
  // Two communicators, for offers to rank 0 and for its decisions: neither waits for the other, nor
  // for updates.
  std::unique_ptr<Communicator> offers_;
  std::unique_ptr<Communicator> decisions_;
  std::vector<std::vector<double>> incoming_;  // rank 0: by peer
  std::vector<double> arriving_;               // other ranks: the next decision
  std::optional<Handle> arrival_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  policy::Round round_ TALLY_GUARDED_BY(mutex_);  // rank 0: which ranks count
  std::optional<std::vector<double>> decision_ TALLY_GUARDED_BY(mutex_);  // rank 0: not yet told
  std::vector<std::vector<double>> rates_ TALLY_GUARDED_BY(mutex_);  // rank 0: offered, by rank
  std::optional<Offer> offer_ TALLY_GUARDED_BY(mutex_);
  std::uint64_t version_ TALLY_GUARDED_BY(mutex_) = 0;
  int generation_ TALLY_GUARDED_BY(mutex_) = 0;
  std::uint64_t drains_ TALLY_GUARDED_BY(mutex_) = 0;  // times that all ranks had drained
  std::optional<std::uint64_t> counted_at_ TALLY_GUARDED_BY(mutex_);  // last version counted
  UpdateTotals totals_ TALLY_GUARDED_BY(mutex_);
  std::optional<Error> failure_ TALLY_GUARDED_BY(mutex_);
  bool is_taking_part_ TALLY_GUARDED_BY(mutex_) = false;  // in an update
  bool stopping_ TALLY_GUARDED_BY(mutex_) = false;
  int listening_ TALLY_GUARDED_BY(mutex_) = 0;  // callbacks that are about to call listen()
};

}  // namespace tally::exchange
