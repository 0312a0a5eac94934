#include "data/shard_course.h"

#include <utility>

#include <fmt/format.h>

#include "base/errors.h"

namespace tally::data {
namespace {

Result<void> move_to(ShardCourse& course, const SavedShard& saved) {
  const OrderOptions& own = course.order.options();
  const bool is_same = own.size == saved.order.size && own.seed == saved.order.seed &&
                       own.shuffle == saved.order.shuffle;
  // The start of an epoch exists in every order.
  if (!is_same && saved.done.samples > 0)
    return make_error(ErrorCode::kMismatch,
                      "the checkpoint is in the middle of an epoch of {}, and this shard has {}",
                      to_string(saved.order), to_string(own));
  TALLY_TRY(course.order.seek(saved.done));
  course.done = course.order.position();
  return {};
}

}  // namespace

std::string to_string(const OrderOptions& order) {
  return fmt::format(
      "{} samples {}", order.size,
      order.shuffle ? fmt::format("with seed {}", order.seed) : "in their own order");
}

Result<void> ShardCourses::add(std::shared_ptr<ShardCourse> course) {
  if (courses_.size() < saved_.size()) TALLY_TRY(move_to(*course, saved_[courses_.size()]));
  courses_.push_back(std::move(course));
  return {};
}

void ShardCourses::count_batches() {
  for (const auto& course : courses_) course->done = course->order.position();
}

std::vector<SavedShard> ShardCourses::positions() const {
  std::vector<SavedShard> positions;
  for (const auto& course : courses_) positions.push_back({course->done, course->order.options()});
  // Shards of the restored checkpoint that this program has not made yet.
  for (std::size_t i = courses_.size(); i < saved_.size(); ++i) positions.push_back(saved_[i]);
  return positions;
}

Result<void> ShardCourses::restore(std::vector<SavedShard> saved) {
  for (std::size_t i = 0; i < courses_.size(); ++i)
    TALLY_TRY(move_to(*courses_[i], i < saved.size() ? saved[i] : SavedShard{}));
  saved_ = std::move(saved);
  return {};
}

}  // namespace tally::data
