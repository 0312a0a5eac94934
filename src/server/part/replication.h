#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

#include "server/protocol/message.h"

namespace tally::server {

// Decides what to send to the next server in a part's chain (chain replication by state). Every
// change of the part has a number, its *mark*; a change is *safe* when all copies have it. One
// record is under way at a time, and later changes go into the next. A value without clock or
// thread; TablePart sends.
class Replication {
 public:
  enum class PeerState : std::uint8_t {
    kNone,      // the end of the chain: every change is safe
    kInStep,    // has all acknowledged changes: records have what changed since
    kInDoubt,   // may have any older state: a change is safe after it has received the whole part
    kUnfilled,  // has nothing: changes do not wait for it until the whole part is under way
  };
  enum class Next : std::uint8_t { kNothing, kChanges, kEverything };

  // Sets the successor and forgets the record under way. All marks are safe if there is no
  // successor, or if it is unfilled.
  void set_peer(NodeId peer, PeerState state) {
    if (peer != peer_) {
      linked_ = false;
      not_before_view_ = 0;
    }
    peer_ = peer;
    state_ = state;
    under_way_.reset();
    settle_if_alone();
  }

  NodeId peer() const { return peer_; }
  PeerState peer_state() const { return state_; }

  void linked() { linked_ = true; }
  // The record under way may have arrived or not.
  void lost() {
    linked_ = false;
    if (!under_way_) return;
    under_way_.reset();
    state_ = PeerState::kInDoubt;
  }

  // The part has changed; returns the mark.
  std::uint64_t changed() {
    ++changes_;
    settle_if_alone();
    return changes_;
  }

  std::uint64_t marks() const { return changes_; }
  bool is_safe(std::uint64_t mark) const { return mark <= safe_; }

  // The record to send now, in this server's view.
  Next next(std::uint32_t view) const {
    if (!may_send(view) || changes_ == safe_) return Next::kNothing;
    if (state_ == PeerState::kInStep) return Next::kChanges;
    return state_ == PeerState::kInDoubt ? Next::kEverything : Next::kNothing;
  }

  // Whether the peer needs the whole part, in the background, when there is bandwidth for it.
  bool wants_everything(std::uint32_t view) const {
    return may_send(view) && (state_ == PeerState::kUnfilled || state_ == PeerState::kInDoubt);
  }

  bool is_waited_for() const {
    return state_ == PeerState::kInStep || state_ == PeerState::kInDoubt;
  }

  // A record with all changes so far is sent in this view; returns its number.
  std::uint64_t send(Next what, std::uint32_t view) {
    under_way_ = Record{.number = next_number_++,
                        .covers = changes_,
                        .view = view,
                        .is_whole = what == Next::kEverything};
    state_ = PeerState::kInStep;
    return under_way_->number;
  }

  // The answers to a record. False if it is not the one under way.
  bool taken(std::uint64_t number) {
    if (!under_way_ || under_way_->number != number) return false;
    safe_ = std::max(safe_, under_way_->covers);
    under_way_.reset();
    return true;
  }

  // The peer, in view `its_view`, did not take the record. The next one is sent in a newer view, or
  // at once if the peer's view is older: it had no memory to keep the record until then. With
  // `resend` the sender repeats the changes in the next record; otherwise the peer is in doubt.
  bool rejected(std::uint64_t number, std::uint32_t its_view, bool resend) {
    if (!under_way_ || under_way_->number != number) return false;
    if (!resend || under_way_->is_whole) state_ = PeerState::kInDoubt;
    not_before_view_ = its_view < under_way_->view ? 0 : std::max(its_view, under_way_->view + 1);
    under_way_.reset();
    return true;
  }

  // The peer may miss changes that no record has: it needs the whole part.
  void doubt() {
    if (state_ == PeerState::kInStep) state_ = PeerState::kInDoubt;
  }

  std::uint64_t number_under_way() const { return under_way_ ? under_way_->number : 0; }
  bool may_send(std::uint32_t view) const {
    return linked_ && !under_way_.has_value() && view >= not_before_view_;
  }

 private:
  struct Record {
    std::uint64_t number = 0;
    std::uint64_t covers = 0;
    std::uint32_t view = 0;
    bool is_whole = false;
  };
  void settle_if_alone() {
    if (!is_waited_for()) safe_ = changes_;
  }

  NodeId peer_ = kNoNode;
  PeerState state_ = PeerState::kNone;
  bool linked_ = false;
  std::uint32_t not_before_view_ = 0;
  std::uint64_t changes_ = 0;
  std::uint64_t safe_ = 0;
  std::uint64_t next_number_ = 1;
  std::optional<Record> under_way_;
};

}  // namespace tally::server
