#include "collective/direct.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/errors.h"
#include "kernel/reduce/copy.h"
#include "kernel/reduce/reduce.h"

namespace tally::collective {
namespace {

constexpr std::size_t kLineBytes = 64;
// A piece, its stage and the peer's stage together fit into the nearest caches.
constexpr std::size_t kRedundantPieceBytes = std::size_t{64} << 10;

void copy_bytes(std::byte* into, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && into != from) std::memcpy(into, from, bytes);
}

// Counters wrap; differences between them are small.
std::uint32_t count32(std::size_t count) { return static_cast<std::uint32_t>(count); }

}  // namespace

Result<void> compare_notices(const SharedArea& area, const Notice& mine) {
  for (int member = 0; member < area.members(); ++member) {
    if (member == area.self()) continue;
    const auto theirs = area.notice(member, mine.sequence);
    if (!theirs || theirs->signature == mine.signature) continue;
    const Rank rank = area.rank_of(member);
    return make_error(ErrorCode::kMismatch, rank, "rank {} called {}, rank {} called {}",
                      area.rank_of(area.self()), describe(mine.signature), rank,
                      describe(theirs->signature));
  }
  return {};
}

DirectTask::DirectTask(SharedArea& area, Mailbox& mailbox, const Notice& notice, DirectPlan plan)
    : area_(area),
      mailbox_(mailbox),
      notice_(notice),
      plan_(std::move(plan)),
      members_(static_cast<std::size_t>(area.members())),
      arrivals_before_(area.arrivals()),
      reductions_before_(area.reductions()) {
  TALLY_CHECK(plan_.slices.size() == members_.size());
}

Part DirectTask::piece_of(int member, std::size_t piece) const {
  const Part slice = redundant_ ? Part{0, plan_.slices.back().end}
                                : plan_.slices[static_cast<std::size_t>(member)];
  const std::size_t begin = std::min(slice.end, slice.begin + piece * piece_elements_);
  return {begin, std::min(slice.end, begin + piece_elements_)};
}

bool DirectTask::all_arrived(std::uint32_t total) const {
  for (int member = 0; member < area_.members(); ++member)
    if (!area_.has_arrived(member, total)) return false;
  return true;
}

bool DirectTask::all_reduced(std::uint32_t total) const {
  for (int member = 0; member < area_.members(); ++member)
    if (!area_.has_reduced(member, total)) return false;
  return true;
}

// This member may stage piece k when it has taken piece k - kStages out, which implies that all
// members have combined that piece. The results of other members for that piece are safe, because
// they stage k after they have taken k - kStages. Staging one piece ahead of combining is enough to
// overlap. Where every member combines everything: this member has combined k - 2, so the peer had
// staged k - 2, so the peer had combined k - 4.
bool DirectTask::can_stage() const {
  static_assert(SharedArea::kStages >= 4);
  return staged_ < pieces_ && staged_ <= finished_ + 1 && staged_ < taken_ + SharedArea::kStages;
}

void DirectTask::stage(std::size_t piece) {
  std::byte* const stage = area_.input_stage(area_.self(), piece);
  if (redundant_) {
    const Part part = piece_of(0, piece);
    kernel::copy_for_others(stage, plan_.input + bytes(part.begin), bytes(part.size()));
  } else if (plan_.combine && notice_.input.kind == Place::Kind::kStaged) {
    for (int member = 0; member < area_.members(); ++member) {
      if (member == area_.self()) continue;
      const Part part = piece_of(member, piece);
      kernel::copy_for_others(stage + static_cast<std::size_t>(member) * bytes(piece_elements_),
                              plan_.input + bytes(part.begin), bytes(part.size()));
    }
  }
  area_.publish_arrival();
}

Result<void> DirectTask::meet() {
  TALLY_TRY(compare_notices(area_, notice_));
  const std::size_t total = bytes(plan_.slices.back().end);
  for (int member = 0; member < area_.members(); ++member) {
    Member& them = members_[static_cast<std::size_t>(member)];
    const auto notice = area_.notice(member, notice_.sequence);
    const std::size_t input_bytes =
        plan_.combine ? total : bytes(plan_.slices[static_cast<std::size_t>(member)].size());
    if (notice) {
      them.input_kind = notice->input.kind;
      them.output_kind = notice->output.kind;
      them.input = area_.segment().find(notice->input.name, input_bytes);
      them.output = area_.segment().find(notice->output.name, total);
    }
    const bool bad = !notice ||
                     (them.input_kind == Place::Kind::kVisible && them.input == nullptr) ||
                     (them.output_kind == Place::Kind::kVisible && them.output == nullptr);
    if (bad) {
      const Rank rank = area_.rank_of(member);
      return make_error(ErrorCode::kCorrupt, rank,
                        "rank {} announced memory that is not in the segment", rank);
    }
  }
  choose_pieces();
  met_ = true;
  return {};
}

bool DirectTask::is_redundant() const {
  const auto staged = [](const Member& them) {
    return them.input_kind == Place::Kind::kStaged && them.output_kind == Place::Kind::kStaged;
  };
  return plan_.combine && members_.size() == 2 &&
         std::all_of(members_.begin(), members_.end(), staged);
}

void DirectTask::choose_pieces() {
  all_visible_ = true;
  std::size_t longest = 0;
  for (int member = 0; member < area_.members(); ++member) {
    const Member& them = members_[static_cast<std::size_t>(member)];
    const std::size_t slice = plan_.slices[static_cast<std::size_t>(member)].size();
    const bool provides = plan_.combine || slice > 0;
    longest = std::max(longest, slice);
    if (them.input_kind == Place::Kind::kStaged && provides) all_visible_ = false;
    if (them.output_kind == Place::Kind::kStaged && plan_.combine) all_visible_ = false;
    if (!plan_.combine && provides && them.input_kind == Place::Kind::kVisible) closing_ = true;
  }
  redundant_ = is_redundant();
  if (redundant_) longest = plan_.slices.back().end;
  // The piece of a slice uses its member's share of the stage.
  const std::size_t piece_bytes = redundant_      ? kRedundantPieceBytes
                                  : plan_.combine ? SharedArea::kStageBytes / members_.size()
                                                  : SharedArea::kStageBytes;
  piece_elements_ =
      all_visible_ ? longest : piece_bytes / kLineBytes * kLineBytes / size_of(plan_.type);
  piece_elements_ = std::max<std::size_t>(piece_elements_, 1);
  pieces_ = std::max<std::size_t>(1, (longest + piece_elements_ - 1) / piece_elements_);
  if (all_visible_) staged_ = pieces_;
}

void DirectTask::combine_slice(std::size_t piece, Part part) {
  std::vector<const void*> sources;
  std::vector<void*> destinations;
  bool staged_output = false;
  const int self = area_.self();
  for (int member = 0; member < area_.members(); ++member) {
    const Member& them = members_[static_cast<std::size_t>(member)];
    if (member == self) {
      if (plan_.input != nullptr) sources.push_back(plan_.input + bytes(part.begin));
      if (plan_.output != nullptr) destinations.push_back(plan_.output + bytes(part.begin));
      continue;
    }
    if (them.input_kind == Place::Kind::kVisible) {
      sources.push_back(them.input + bytes(part.begin));
    } else if (them.input_kind == Place::Kind::kStaged) {
      sources.push_back(area_.input_stage(member, piece) +
                        static_cast<std::size_t>(self) * bytes(piece_elements_));
    }
    if (them.output_kind == Place::Kind::kVisible)
      destinations.push_back(them.output + bytes(part.begin));
    staged_output |= them.output_kind == Place::Kind::kStaged;
  }
  if (staged_output) destinations.push_back(area_.result_stage(self, piece));
  if (plan_.own_slice != nullptr) {
    const std::size_t begin = plan_.slices[static_cast<std::size_t>(self)].begin;
    destinations.push_back(plan_.own_slice + bytes(part.begin - begin));
  }
  if (part.size() > 0 && !sources.empty()) {
    kernel::kernels().combine_many(plan_.type, plan_.op, sources, destinations, part.size(),
                                   plan_.divisor);
  }
}

void DirectTask::combine_everything(std::size_t piece) {
  const Part part = piece_of(0, piece);
  const std::byte* const own = plan_.input + bytes(part.begin);
  std::array<const void*, 2> sources = {own, area_.input_stage(1, piece)};
  if (area_.self() == 1) sources = {area_.input_stage(0, piece), own};
  void* const output = plan_.output + bytes(part.begin);
  kernel::kernels().combine_many(plan_.type, plan_.op, sources, {&output, 1}, part.size(),
                                 plan_.divisor);
}

void DirectTask::finish(std::size_t piece) {
  if (redundant_) return combine_everything(piece);
  const Part part = piece_of(area_.self(), piece);
  if (plan_.combine) {
    combine_slice(piece, part);
  } else if (notice_.input.kind == Place::Kind::kStaged) {
    const std::size_t begin = plan_.slices[static_cast<std::size_t>(area_.self())].begin;
    kernel::copy_for_others(area_.result_stage(area_.self(), piece),
                            plan_.input + bytes(part.begin - begin), bytes(part.size()));
  }
  area_.publish_reduction();
}

const std::byte* DirectTask::finished(int member, std::size_t piece, Part part) const {
  const Member& them = members_[static_cast<std::size_t>(member)];
  const std::size_t within =
      bytes(part.begin - plan_.slices[static_cast<std::size_t>(member)].begin);
  if (!plan_.combine && member == area_.self()) return plan_.input + within;
  if (!plan_.combine && them.input_kind == Place::Kind::kVisible) return them.input + within;
  return area_.result_stage(member, piece);
}

void DirectTask::take(std::size_t piece) {
  if (plan_.output == nullptr) return;
  // A combined piece is already in place: this member combined it itself, or the other members can
  // write to the output.
  const bool written_by_others = plan_.combine && notice_.output.kind == Place::Kind::kVisible;
  if (written_by_others) return;
  for (int member = 0; member < area_.members(); ++member) {
    const Part part = piece_of(member, piece);
    if (part.size() == 0 || (plan_.combine && member == area_.self())) continue;
    copy_bytes(plan_.output + bytes(part.begin), finished(member, piece, part), bytes(part.size()));
  }
}

// The number of arrivals of each member, since the area was made, once `pieces` are staged.
std::uint32_t DirectTask::arrivals_for(std::size_t pieces) const {
  return arrivals_before_ + 1 + (all_visible_ ? 0 : count32(pieces));
}

Result<bool> DirectTask::advance_piece() {
  if (!announced_) {
    announced_ = true;
    area_.publish_arrival();
    return true;
  }
  if (!met_) {
    if (!all_arrived(arrivals_before_ + 1)) return false;
    TALLY_TRY(meet());
    return true;
  }
  if (can_stage()) {
    stage(staged_++);
    return true;
  }
  if (finished_ < staged_ && all_arrived(arrivals_for(finished_ + 1))) {
    finish(finished_++);
    return true;
  }
  if (taken_ < finished_ && (redundant_ || all_reduced(reductions_before_ + count32(taken_ + 1)))) {
    if (!redundant_) take(taken_);
    ++taken_;
    if (taken_ == pieces_ && closing_) area_.publish_arrival();
    return true;
  }
  return false;
}

Result<Progress> DirectTask::advance() {
  Progress progress = Progress::kBlocked;
  for (;;) {
    TALLY_TRY(const bool moved, advance_piece());
    if (!moved) break;
    progress = Progress::kMoved;
  }
  if (met_ && taken_ == pieces_ && (!closing_ || all_arrived(arrivals_for(pieces_) + 1)))
    return Progress::kComplete;
  if (mailbox_.failed()) {
    MutexLock lock(mailbox_.router().mutex);
    return mailbox_.failure();
  }
  return progress;
}

bool DirectTask::ready() const { return awaited().empty() || mailbox_.failed(); }

std::vector<Rank> DirectTask::awaited() const {
  std::vector<Rank> ranks;
  const bool leaving = taken_ == pieces_;
  const bool arriving = !met_ || leaving || finished_ < staged_;
  const std::uint32_t arrivals = !met_     ? arrivals_before_ + 1
                                 : leaving ? arrivals_for(pieces_) + 1
                                           : arrivals_for(finished_ + 1);
  for (int member = 0; member < area_.members(); ++member) {
    const bool there = arriving
                           ? area_.has_arrived(member, arrivals)
                           : area_.has_reduced(member, reductions_before_ + count32(taken_ + 1));
    if (!there) ranks.push_back(area_.rank_of(member));
  }
  return ranks;
}

}  // namespace tally::collective
