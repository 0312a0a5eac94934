// The positions of a trainer's shards. Every update counts the batches that the loops have taken so
// far as done; a checkpoint has these positions in the order of the calls of shard(). A restored
// position goes to the shard of the same number, whether it exists already or is made later.
#include <fmt/format.h>

#include "adapters/torch/shard_course.h"
#include "adapters/torch/trainer_impl.h"
#include "exchange/check_same.h"

namespace tally {

using adapter::or_throw;
using adapter::refuse;
using adapter::SavedShard;
using adapter::ShardCourse;

namespace {

std::string shard_text(std::uint64_t size, std::uint64_t seed, bool shuffle) {
  return fmt::format("{} samples {}", size,
                     shuffle ? fmt::format("with seed {}", seed) : "in their own order");
}

void move_to(ShardCourse& course, const SavedShard& saved) {
  const data::OrderOptions& own = course.order.options();
  const bool is_same =
      own.size == saved.size && own.seed == saved.seed && own.shuffle == saved.shuffle;
  // The start of an epoch exists in every order.
  if (!is_same && saved.done.samples > 0)
    refuse(ErrorCode::kMismatch,
           fmt::format("the checkpoint is in the middle of an epoch of {}, and this shard has {}",
                       shard_text(saved.size, saved.seed, saved.shuffle),
                       shard_text(own.size, own.seed, own.shuffle)));
  or_throw(course.order.seek(saved.done));
  course.done = course.order.position();
}

}  // namespace

Shard Trainer::Impl::shard(at::Tensor x, at::Tensor y, const ShardOptions& options) {
  Shard made = tally::shard(job_, std::move(x), std::move(y), options);
  // Ranks that divide the data in different ways would read samples twice or never.
  const data::OrderOptions& order = made.course()->order.options();
  or_throw(exchange::check_same(
      job_.world(),
      {"shards",
       "setting",
       {shard_text(order.size, order.seed, order.shuffle), fmt::format("batch {}", order.batch),
        fmt::format("epochs {}", options.epochs)}},
      Deadline::after(std::chrono::minutes(5))));
  if (shards_.size() < saved_shards_.size()) move_to(*made.course(), saved_shards_[shards_.size()]);
  shards_.push_back(made.course());
  return made;
}

void Trainer::Impl::count_batches() {
  for (const auto& course : shards_) course->done = course->order.position();
}

std::vector<SavedShard> Trainer::Impl::shard_positions() const {
  std::vector<SavedShard> positions;
  for (const auto& course : shards_) {
    const data::OrderOptions& order = course->order.options();
    positions.push_back({course->done, order.size, order.seed, order.shuffle});
  }
  // Shards of the restored checkpoint that this program has not made yet.
  for (std::size_t i = shards_.size(); i < saved_shards_.size(); ++i)
    positions.push_back(saved_shards_[i]);
  return positions;
}

void Trainer::Impl::restore_shards(std::vector<SavedShard> saved) {
  for (std::size_t i = 0; i < shards_.size(); ++i)
    move_to(*shards_[i], i < saved.size() ? saved[i] : SavedShard{});
  saved_shards_ = std::move(saved);
}

}  // namespace tally
