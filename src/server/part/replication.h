#pragma once
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
  void set_peer(NodeId peer, PeerState state);
  NodeId peer() const { return peer_; }
  PeerState peer_state() const { return state_; }

  void linked();
  // The record under way may have arrived or not.
  void lost();

  // The part has changed; returns the mark.
  std::uint64_t changed();
  std::uint64_t marks() const { return changes_; }
  bool is_safe(std::uint64_t mark) const { return mark <= safe_; }

  // The record to send now, in this server's view.
  Next next(std::uint32_t view) const;
  // Whether the peer needs the whole part, in the background, when there is bandwidth for it.
  bool wants_everything(std::uint32_t view) const;
  bool is_waited_for() const {
    return state_ == PeerState::kInStep || state_ == PeerState::kInDoubt;
  }

  // A record with all changes so far is sent in this view; returns its number.
  std::uint64_t send(Next what, std::uint32_t view);
  // The answers to a record. False if it is not the one under way.
  bool taken(std::uint64_t number);
  // The peer, in view `its_view`, did not take the record. The next one is sent in a newer view, or
  // at once if the peer's view is older: it had no memory to keep the record until then. With
  // `resend` the sender repeats the changes in the next record; otherwise the peer is in doubt.
  bool rejected(std::uint64_t number, std::uint32_t its_view, bool resend);
  // The peer may miss changes that no record has: it needs the whole part.
  void doubt();
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
  void settle_if_alone();

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
