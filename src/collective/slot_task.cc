#include <cstring>

#include "base/errors.h"
#include "collective/direct.h"
#include "kernel/reduce/reduce.h"

namespace tally::collective {

SlotTask::SlotTask(SharedArea& area, Mailbox& mailbox, const Notice& notice, const DirectPlan& plan,
                   std::size_t count)
    : area_(area),
      mailbox_(mailbox),
      notice_(notice),
      plan_(plan),
      count_(count),
      turn_(area.next_turn()),
      arrivals_(area.arrivals() + 1),
      reductions_(area.reductions() + 1) {
  if (notice_.input.kind == Place::Kind::kStaged)
    std::memcpy(area_.slot(area_.self(), turn_), plan_.input, count * size_of(plan_.type));
  area_.publish_arrival();
}

bool SlotTask::is_there(int member) const {
  return met_ ? area_.has_reduced(member, reductions_) : area_.has_arrived(member, arrivals_);
}

bool SlotTask::all_there() const {
  for (int member = 0; member < area_.members(); ++member)
    if (!is_there(member)) return false;
  return true;
}

std::vector<Rank> SlotTask::awaited() const {
  std::vector<Rank> ranks;
  for (int member = 0; member < area_.members(); ++member)
    if (!is_there(member)) ranks.push_back(area_.rank_of(member));
  return ranks;
}

// Reads the notices of all members. A member that is already ahead used slots.
Result<void> SlotTask::meet() {
  TALLY_TRY(compare_notices(area_, notice_));
  const std::size_t bytes = count_ * size_of(plan_.type);
  std::vector<const void*>& inputs = area_.inputs();
  std::vector<void*>& outputs = area_.outputs();
  int visible = 0;
  for (int member = 0; member < area_.members(); ++member) {
    const auto index = static_cast<std::size_t>(member);
    const auto notice = area_.notice(member, notice_.sequence);
    inputs[index] = area_.slot(member, turn_);
    outputs[index] = nullptr;
    if (!notice) continue;
    if (notice->input.kind == Place::Kind::kVisible)
      inputs[index] = area_.segment().find(notice->input.name, bytes);
    if (notice->output.kind == Place::Kind::kVisible)
      outputs[index] = area_.segment().find(notice->output.name, bytes);
    if (inputs[index] == nullptr) {
      return make_error(ErrorCode::kCorrupt, area_.rank_of(member),
                        "announced memory that is not in the segment");
    }
    if (notice->input.kind == Place::Kind::kVisible) visible += outputs[index] != nullptr ? 2 : 1;
  }
  way_ = visible == 0 ? Way::kSlots : visible == 2 * area_.members() ? Way::kVisible : Way::kMixed;
  met_ = true;
  return {};
}

void SlotTask::combine_slots() {
  void* const output = plan_.output;
  kernel::kernels().combine_many(plan_.type, plan_.op, area_.slots(turn_), {&output, 1}, count_,
                                 plan_.divisor);
}

void SlotTask::combine_slice() {
  const Part part = part_of(count_, area_.members(), area_.self());
  const std::size_t offset = part.begin * size_of(plan_.type);
  for (const void*& input : area_.inputs()) input = static_cast<const std::byte*>(input) + offset;
  for (void*& output : area_.outputs()) output = static_cast<std::byte*>(output) + offset;
  if (part.size() > 0) {
    kernel::kernels().combine_many(plan_.type, plan_.op, area_.inputs(), area_.outputs(),
                                   part.size(), plan_.divisor);
  }
  area_.publish_reduction();
}

void SlotTask::combine_mixed() {
  void* const result = area_.result_stage(area_.self(), 0);
  kernel::kernels().combine_many(plan_.type, plan_.op, area_.inputs(), {&result, 1}, count_,
                                 plan_.divisor);
  area_.publish_reduction();
}

Result<Progress> SlotTask::advance() {
  if (!all_there()) {
    if (!mailbox_.failed()) return Progress::kBlocked;
    MutexLock lock(mailbox_.router().mutex);
    return mailbox_.failure();
  }
  if (met_) {
    if (way_ == Way::kMixed)
      std::memcpy(plan_.output, area_.result_stage(area_.self(), 0), count_ * size_of(plan_.type));
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
