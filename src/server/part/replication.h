#pragma once
#include <cstdint>
#include <optional>

#include "server/protocol/message.h"

namespace tally::server {

// How far the next server in a part's chain is, and what it has to be sent: decided here, sent
// elsewhere. Every change of the part has a number, a *mark*; a change is *safe* when all copies
// have it. At most one record is under way, and what changes meanwhile goes into the next. A value
// without clock or thread.
class Replication {
 public:
  enum class PeerState : std::uint8_t {
    kNone,      // the end of the chain: what is changed is safe
    kInStep,    // has everything that was taken: it is sent what changed since
    kInDoubt,   // may have anything, also something old: it must have everything before a change is
                // safe
    kUnfilled,  // has nothing, and would say so: changes need not wait for it until everything is
                // under way to it
  };
  enum class Next : std::uint8_t { kNothing, kChanges, kEverything };

  // Who follows from now on; what was under way to another is forgotten. Marks that waited for it
  // are safe if there is none or if it is unfilled.
  void set_peer(NodeId peer, PeerState state);
  NodeId peer() const { return peer_; }
  PeerState peer_state() const { return state_; }

  void linked();
  // What was under way may have come or not.
  void lost();

  // The part has changed: its mark.
  std::uint64_t changed();
  std::uint64_t marks() const { return changes_; }
  bool is_safe(std::uint64_t mark) const { return mark <= safe_; }

  // What is to be sent now. `view`: that this server has.
  Next next(std::uint32_t view) const;
  // Whether everything is to be sent to the peer in the background, when there is room for it.
  bool wants_everything(std::uint32_t view) const;
  bool is_waited_for() const {
    return state_ == PeerState::kInStep || state_ == PeerState::kInDoubt;
  }

  // A record with all changes so far goes out, in this view: its number.
  std::uint64_t send(Next what, std::uint32_t view);
  // Answers to it. False if it is not that which is under way.
  bool taken(std::uint64_t number);
  // The peer has view `its_view` and does not take the record: the next goes out in a newer view
  // than that was sent in, or at once if the peer's is older: it had no room to keep it until it
  // has the view. `resend`: the sender knows what was in the record and will send it again with
  // what follows; otherwise the peer is in doubt.
  bool rejected(std::uint64_t number, std::uint32_t its_view, bool resend);
  // What is under way was not made of this part's state alone; everything has to follow it.
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
