#include "server/part/replication.h"

#include <algorithm>

namespace tally::server {

void Replication::settle_if_alone() {
  if (!is_waited_for()) safe_ = changes_;
}

void Replication::set_peer(NodeId peer, PeerState state) {
  if (peer != peer_) {
    linked_ = false;
    not_before_view_ = 0;
  }
  peer_ = peer;
  state_ = state;
  under_way_.reset();
  settle_if_alone();
}

void Replication::linked() { linked_ = true; }

void Replication::lost() {
  linked_ = false;
  if (!under_way_) return;
  under_way_.reset();
  state_ = PeerState::kInDoubt;
}

std::uint64_t Replication::changed() {
  ++changes_;
  settle_if_alone();
  return changes_;
}

Replication::Next Replication::next(std::uint32_t view) const {
  if (!may_send(view) || changes_ == safe_) return Next::kNothing;
  if (state_ == PeerState::kInStep) return Next::kChanges;
  return state_ == PeerState::kInDoubt ? Next::kEverything : Next::kNothing;
}

bool Replication::wants_everything(std::uint32_t view) const {
  return may_send(view) && (state_ == PeerState::kUnfilled || state_ == PeerState::kInDoubt);
}

std::uint64_t Replication::send(Next what, std::uint32_t view) {
  under_way_ = Record{.number = next_number_++,
                      .covers = changes_,
                      .view = view,
                      .is_whole = what == Next::kEverything};
  state_ = PeerState::kInStep;
  return under_way_->number;
}

bool Replication::taken(std::uint64_t number) {
  if (!under_way_ || under_way_->number != number) return false;
  safe_ = std::max(safe_, under_way_->covers);
  under_way_.reset();
  return true;
}

bool Replication::rejected(std::uint64_t number, std::uint32_t its_view, bool resend) {
  if (!under_way_ || under_way_->number != number) return false;
  if (!resend || under_way_->is_whole) state_ = PeerState::kInDoubt;
  not_before_view_ = its_view < under_way_->view ? 0 : std::max(its_view, under_way_->view + 1);
  under_way_.reset();
  return true;
}

void Replication::doubt() {
  if (state_ == PeerState::kInStep) state_ = PeerState::kInDoubt;
}

}  // namespace tally::server
