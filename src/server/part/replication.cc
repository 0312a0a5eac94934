#include "server/part/replication.h"

#include <algorithm>

namespace tally::server {

void Replication::settle_if_alone() {
  if (!is_waited_for()) safe_ = changes_;
}

void Replication::set_peer(NodeId peer, Peer standing) {
  if (peer != peer_) {
    linked_ = false;
    not_before_view_ = 0;
  }
  peer_ = peer;
  standing_ = standing;
  under_way_.reset();
  settle_if_alone();
}

void Replication::linked() { linked_ = true; }

void Replication::lost() {
  linked_ = false;
  if (!under_way_) return;
  under_way_.reset();
  standing_ = Peer::kInDoubt;
}

std::uint64_t Replication::changed() {
  ++changes_;
  settle_if_alone();
  return changes_;
}

Replication::Next Replication::next(std::uint32_t view) const {
  if (!may_send(view) || changes_ == safe_) return Next::kNothing;
  if (standing_ == Peer::kInStep) return Next::kChanges;
  return standing_ == Peer::kInDoubt ? Next::kEverything : Next::kNothing;
}

bool Replication::wants_everything(std::uint32_t view) const {
  return may_send(view) && (standing_ == Peer::kUnfilled || standing_ == Peer::kInDoubt);
}

std::uint64_t Replication::send(Next what, std::uint32_t view) {
  under_way_ = Record{.number = next_number_++,
                      .covers = changes_,
                      .view = view,
                      .is_whole = what == Next::kEverything};
  standing_ = Peer::kInStep;
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
  if (!resend || under_way_->is_whole) standing_ = Peer::kInDoubt;
  not_before_view_ = its_view < under_way_->view ? 0 : std::max(its_view, under_way_->view + 1);
  under_way_.reset();
  return true;
}

void Replication::doubt() {
  if (standing_ == Peer::kInStep) standing_ = Peer::kInDoubt;
}

}  // namespace tally::server
