#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "collective/direct.h"
#include "kernel/reduce/reduce.h"

namespace tally::collective {

SlotTask::SlotTask(Board& board, Mailbox& mailbox, const Notice& notice, const DirectPlan& plan,
                   std::size_t count)
    : board_(board),
      mailbox_(mailbox),
      notice_(notice),
      plan_(plan),
      count_(count),
      turn_(board.next_turn()),
      arrivals_(board.arrivals() + 1),
      reductions_(board.reductions() + 1) {
  if (notice_.input.kind == Place::Kind::kStaged)
    std::memcpy(board_.slot(board_.self(), turn_), plan_.input, count * size_of(plan_.type));
  board_.publish_arrivals(1);
}

bool SlotTask::is_there(int member) const {
  return met_ ? board_.has_reduced(member, reductions_) : board_.has_arrived(member, arrivals_);
}

bool SlotTask::all_there() const {
  for (int member = 0; member < board_.members(); ++member)
    if (!is_there(member)) return false;
  return true;
}

std::vector<Rank> SlotTask::awaited() const {
  std::vector<Rank> ranks;
  for (int member = 0; member < board_.members(); ++member)
    if (!is_there(member)) ranks.push_back(board_.rank_of(member));
  return ranks;
}

// Learns where everybody's memory is. A member that has gone on already needed nobody: it used
// slots.
Result<void> SlotTask::meet() {
  TALLY_TRY(compare_notices(board_, notice_));
  const std::size_t bytes = count_ * size_of(plan_.type);
  std::vector<const void*>& inputs = board_.inputs();
  std::vector<void*>& outputs = board_.outputs();
  int visible = 0;
  for (int member = 0; member < board_.members(); ++member) {
    const auto index = static_cast<std::size_t>(member);
    const auto notice = board_.notice(member, notice_.sequence);
    inputs[index] = board_.slot(member, turn_);
    outputs[index] = nullptr;
    if (!notice) continue;
    if (notice->input.kind == Place::Kind::kVisible)
      inputs[index] = board_.segment().find(notice->input.name, bytes);
    if (notice->output.kind == Place::Kind::kVisible)
      outputs[index] = board_.segment().find(notice->output.name, bytes);
    if (inputs[index] == nullptr) {
      return Error{.code = ErrorCode::kCorrupt,
                   .peer = board_.rank_of(member),
                   .message = "announced memory that is not in the segment"};
    }
    if (notice->input.kind == Place::Kind::kVisible) visible += outputs[index] != nullptr ? 2 : 1;
  }
  way_ = visible == 0 ? Way::kSlots : visible == 2 * board_.members() ? Way::kVisible : Way::kMixed;
  met_ = true;
  return {};
}

void SlotTask::combine_slots() {
  void* const output = plan_.output;
  kernel::kernels().combine_many(plan_.type, plan_.op, board_.slots(turn_), {&output, 1}, count_,
                                 plan_.divisor);
}

void SlotTask::combine_slice() {
  const Part part = part_of(count_, board_.members(), board_.self());
  const std::size_t offset = part.begin * size_of(plan_.type);
  for (const void*& input : board_.inputs()) input = static_cast<const std::byte*>(input) + offset;
  for (void*& output : board_.outputs()) output = static_cast<std::byte*>(output) + offset;
  if (part.size() > 0) {
    kernel::kernels().combine_many(plan_.type, plan_.op, board_.inputs(), board_.outputs(),
                                   part.size(), plan_.divisor);
  }
  board_.publish_reductions(1);
}

void SlotTask::combine_mixed() {
  void* const result = board_.result_stage(board_.self(), 0);
  kernel::kernels().combine_many(plan_.type, plan_.op, board_.inputs(), {&result, 1}, count_,
                                 plan_.divisor);
  board_.publish_reductions(1);
}

Result<Progress> SlotTask::advance() {
  if (!all_there()) {
    if (!mailbox_.failed()) return Progress::kBlocked;
    MutexLock lock(mailbox_.room().mutex);
    return mailbox_.failure();
  }
  if (met_) {
    if (way_ == Way::kMixed)
      std::memcpy(plan_.output, board_.result_stage(board_.self(), 0),
                  count_ * size_of(plan_.type));
    return Progress::kComplete;
  }
  TALLY_TRY(meet());
  if (way_ == Way::kSlots) {
    if (count_ > 0) combine_slots();
    return Progress::kComplete;
  }
  if (way_ == Way::kVisible) {
    combine_slice();
  } else {
    combine_mixed();
  }
  return Progress::kMoved;
}

}  // namespace tally::collective
