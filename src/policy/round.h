#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "policy/rules.h"
#include "policy/staleness.h"
#include "tally/error.h"

namespace tally::policy {

using Worker = std::uint32_t;

// A gradient that a worker offers.
struct Offer {
  Worker worker = 0;
  std::uint64_t clock = 0;    // steps that the worker has finished with it
  std::uint64_t version = 0;  // that it was computed at
};

enum class Verdict : std::uint8_t {
  kApply,  // at once, by itself
  kHold,   // it will be part of a round
  kDrop,   // too late: without effect
};

// The rules of one part of a table: which gradients make up which update, who may read when, who is
// waited for. A value without clock or thread; the same calls give the same decisions.
//
//   bsp       a round has one gradient of every member, and begins when `workers` ranks have come
//   backup:B  a round has the first N-B of its version, or of all members where they are fewer
//   subset:K  a round has those of the K ranks drawn for its version that are members. Where none
//   is, nobody would come: the version is
//             passed over without an update.
//   kbatch:K  a round has the first K of its version, from anybody
//   asp, ssp  every gradient is applied by itself
//
// Members that are beyond a round's version (they hold a gradient of a later one, or have passed)
// are not waited for. A version that everybody who could take part is beyond is passed over.
// Nothing is applied before as many ranks have come as there are to be.
class Round {
 public:
  explicit Round(const Rules& rules) : rules_(rules) {}

  // A worker that joins starts at the slowest clock of those that are there. A rank that is there
  // already is replaced; a worker that is there already stays as it is.
  void join(Worker worker, int rank);
  // Nobody waits for it any more. What it had offered to a round is kept.
  void leave(Worker worker);

  // Moves the worker's clock, but for kApply, where applied() does. kDrop for a worker that is no
  // member or not drawn, for a version that is over, and with stale=drop:T for one more than T
  // versions old. kHold: a worker's offer takes the place of one of the same version that it has
  // here (kbatch: of the same version and clock), so that one which is sent again counts once.
  Verdict offer(const Offer& offer);
  // The held offers that make up the next update, now: by rank, then by clock; empty while it is
  // not complete. They are no longer held; applied() must follow if they were applied, and their
  // version goes on without them if they cannot be. Those that came too late are in `dropped`, also
  // while `counted` is empty. To be asked after offer(), join(), leave(), set_version() and
  // applied(), until it gives nothing.
  struct Due {
    std::vector<Offer> counted;
    std::vector<Offer> dropped;
    // Versions that went by without an update: who waits to read may be able to.
    std::uint64_t passed_over = 0;
    bool nothing() const { return counted.empty() && dropped.empty() && passed_over == 0; }
  };
  Due due();
  // What due() gave has been applied: it counts, and the next version begins.
  void applied(const std::vector<Offer>& counted);
  // So has an offer that was to be applied at once, with this staleness: that which decided on it.
  void applied(const Offer& offer, std::uint64_t staleness);
  // A held offer is taken back; nothing if there is no such one.
  void withdraw(const Offer& offer);

  // The worker waits to read `version` and offers nothing for older ones: to be told when a pull
  // cannot be answered yet, before due(). With backup:B a worker gives a gradient up that comes too
  // late for other parts; if those who were in time die, nobody waits for it here.
  void pass(Worker worker, std::uint64_t version);

  // The worker has finished so many steps, with or without a gradient. Clocks never go back.
  void advance(Worker worker, std::uint64_t clock);

  std::uint64_t version() const { return version_; }
  void set_version(std::uint64_t version) { version_ = version; }
  // Of the members; 0 until `workers` ranks have come.
  std::uint64_t slowest_clock() const;
  bool may_read(std::uint64_t least_version, std::uint64_t least_clock) const;
  // Whether as many ranks have come as there are to be; it stays so when they leave.
  bool is_complete() const { return complete_; }
  std::vector<Worker> members() const;
  std::size_t held() const;
  // By how many versions the offer is behind.
  std::uint64_t staleness_of(const Offer& offer) const {
    return version_ > offer.version ? version_ - offer.version : 0;
  }
  // Of gradients that were applied, by versions.
  const Histogram& staleness() const { return histogram_; }

  // What the rate of a gradient is multiplied with: 1/N, 1/staleness, or 1.
  double rate_factor(std::uint64_t staleness) const {
    return policy::rate_factor(rules_, staleness);
  }

  // Version, clocks, histogram and who has come, for a copy elsewhere; held offers are not in it:
  // they are sent again. restore() takes the clocks of members; who is a member is not in it
  // either. kCorrupt, with nothing changed, for what encode() cannot have made.
  std::vector<std::byte> encode() const;
  Result<void> restore(std::span<const std::byte> bytes);

 private:
  struct Member {
    int rank = 0;
    std::uint64_t clock = 0;
    std::uint64_t passed = 0;  // it offers nothing for versions below
  };
  struct Held {
    Offer offer;
    int rank = 0;
  };
  using Batch = std::vector<Held>;  // in the order of arrival

  // Of a member for the current version.
  bool is_awaited(const Member& member);
  std::uint64_t next_version(Worker worker, const Member& member) const;
  // Whether a member may still offer a gradient of the current version that it has not.
  bool is_somebody_missing(const Batch& batch);
  bool is_full(const Batch& batch);
  // To the next version that somebody comes for; 0 if that may be the current one.
  std::uint64_t versions_without_anybody();
  Due take_current();

  const Rules rules_;
  std::map<Worker, Member> members_;
  std::map<std::uint64_t, Batch> held_;  // by version
  std::uint64_t version_ = 0;
  std::set<int> ranks_;  // that have come; not kept once complete
  bool complete_ = false;
  std::uint64_t last_clock_ = 0;  // of the last member that left
  Histogram histogram_;
  // Of `drawn_version_`, by rank.
  std::vector<bool> drawn_;
  std::uint64_t drawn_version_ = 0;
};

}  // namespace tally::policy
