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
  double weight = 1;          // samples behind it

  friend bool operator==(const Offer&, const Offer&) = default;
};

enum class Decision : std::uint8_t {
  kApply,  // apply at once, by itself
  kHold,   // hold for a round
  kDrop,   // too late: drop
};

// The synchronization rules of one part of a table: which gradients make up an update, which
// workers the update waits for, and when a worker may read. A value without clock or thread; the
// same calls give the same decisions.
//
//   bsp       a round has one gradient of every member
//   backup:B  a round has the first N-B gradients of its version, or those of all members if fewer
//   subset:K  a round has the gradients of the K ranks that are drawn for its version; if none of
//             these is a member, the version is skipped without an update
//   kbatch:K  a round has the first K gradients of its version, from any members; with `async` the
//             first K of any version
//   kasync:K  a round has the first gradients, of any version, of K different members, or those of
//             all members if fewer; a member's further gradients are for later rounds
//   asp, ssp  every gradient is applied by itself
//
// A round does not wait for members that are beyond its version: those with a held gradient of a
// later version, and those that have passed. A version that all its possible members are beyond is
// skipped. No round is applied before `workers` ranks have joined.
class Round {
 public:
  explicit Round(const Rules& rules) : rules_(rules) {}

  // A new worker starts at the slowest clock of the members. It replaces a member of the same rank.
  // A worker that is a member already keeps its state.
  void join(Worker worker, int rank);
  // Rounds no longer wait for the worker. Its held offers are kept.
  void leave(Worker worker);

  // Advances the worker's clock, except for kApply, where applied() does. kDrop for a worker that
  // is no member or not drawn, for a past version, and with stale=drop:T for a gradient more than T
  // versions old. A held offer replaces the worker's earlier one of the same version (kbatch: of
  // the same version and clock; rounds of any version: of the same clock), so that a repeated offer
  // counts once.
  Decision offer(const Offer& offer);
  // The held offers that make up the next update, by rank, then by clock; empty while the round is
  // not complete. They are no longer held. If they are applied, applied() must follow; if they
  // cannot be, their version continues without them. Late offers are in `dropped`, also while
  // `counted` is empty. Call due() after offer(), join(), leave(), set_version() and applied()
  // until it returns nothing.
  struct Due {
    std::vector<Offer> counted;
    std::vector<Offer> dropped;
    // Versions that were skipped without an update; waiting reads may now be possible.
    std::uint64_t passed_over = 0;
    bool nothing() const { return counted.empty() && dropped.empty() && passed_over == 0; }
  };
  Due due();
  // The offers from due() have been applied; the next version begins.
  void applied(const std::vector<Offer>& counted);
  // An offer with Decision::kApply has been applied; `staleness` is that of the decision.
  void applied(const Offer& offer, std::uint64_t staleness);
  // Removes a held offer, if there is one.
  void withdraw(const Offer& offer);

  // The worker waits to read `version` and offers nothing for older versions. Call it before due()
  // when a pull cannot be answered yet. With backup:B a worker drops a gradient that is too late
  // for other parts; if the timely workers die, this part must not wait for that gradient.
  void pass(Worker worker, std::uint64_t version);

  // The worker has finished `clock` steps, with or without a gradient. Clocks never go back.
  void advance(Worker worker, std::uint64_t clock);

  std::uint64_t version() const { return version_; }
  void set_version(std::uint64_t version) { version_ = version; }
  // The slowest clock of the members; 0 until `workers` ranks have joined.
  std::uint64_t slowest_clock() const;
  bool may_read(std::uint64_t least_version, std::uint64_t least_clock) const;
  // Whether `workers` ranks have joined; it stays true when they leave.
  bool is_complete() const { return complete_; }
  std::vector<Worker> members() const;
  std::size_t held() const;
  // The number of versions that the offer is behind.
  std::uint64_t staleness_of(const Offer& offer) const {
    return version_ > offer.version ? version_ - offer.version : 0;
  }
  // The staleness of the applied gradients, in versions.
  const Histogram& staleness() const { return histogram_; }

  // The factor of the learning rate for a gradient that is applied now. Each member counts with the
  // samples of its last gradient, so that workers with larger batches have larger shares, and a
  // lost worker has none.
  double rate_factor(const Offer& offer, double power = 1) const {
    return policy::rate_factor(rules_, share_of(offer), staleness_of(offer), power);
  }
  // Whether the current round may have a gradient of this worker: not if subset:K did not draw it.
  bool is_drawn(Worker worker) const;
  // The part of a step's samples that the update with this gradient has.
  double share_of(const Offer& offer) const;
  // Members, or all workers before they have joined; at least 1.
  int workers() const;

  // Version, clocks, weights, histogram and the ranks that have joined, for a replica. Held offers
  // are not encoded, because workers send them again. The set of members is not encoded either:
  // restore() sets the clocks of the present members. kCorrupt, with nothing changed, for bytes
  // that encode() cannot have made.
  std::vector<std::byte> encode() const;
  Result<void> restore(std::span<const std::byte> bytes);

 private:
  struct Member {
    int rank = 0;
    std::uint64_t clock = 0;
    std::uint64_t passed = 0;  // the worker offers nothing for versions below
    double weight = 0;         // of its last offer; 0: unknown
  };
  struct Held {
    Offer offer;
    int rank = 0;
  };
  using Batch = std::vector<Held>;  // in the order of arrival
  static bool has_of(const Batch& batch, Worker worker);

  Decision hold_for_any(const Held& held);
  void hold_from(std::uint64_t version, const Held& held);
  // Whether the current version is to have a gradient of this member.
  bool is_awaited(const Member& member);
  std::uint64_t next_version(Worker worker, const Member& member) const;
  // Whether a member may still offer a gradient of the current version.
  bool is_somebody_missing(const Batch& batch);
  bool is_full(const Batch& batch);
  // The number of versions to skip until the next one that a member comes for; 0 if that may be the
  // current one.
  std::uint64_t versions_without_anybody();
  Due take_current();

  const Rules rules_;
  std::map<Worker, Member> members_;
  std::map<std::uint64_t, Batch> held_;  // by the version that they are for
  std::uint64_t version_ = 0;
  std::set<int> ranks_;  // that have joined; empty once complete
  bool complete_ = false;
  std::uint64_t last_clock_ = 0;  // of the last member that left
  Histogram histogram_;
  // Whether each rank is drawn for `drawn_version_`.
  std::vector<bool> drawn_;
  std::uint64_t drawn_version_ = 0;
};

}  // namespace tally::policy
