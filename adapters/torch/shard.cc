#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "adapters/torch/trainer_impl.h"
#include "data/shard_course.h"
#include "exchange/check_same.h"

namespace tally {

struct Shard::State {
  at::Tensor x;
  at::Tensor y;
  std::uint64_t epochs = 0;
  std::shared_ptr<data::ShardCourse> course;
  // For a trainer with graphs: the largest batches are all in `fixed`. Null otherwise.
  std::shared_ptr<adapter::CaptureRule> capture_rule = nullptr;
  std::shared_ptr<adapter::BatchTensors> fixed = nullptr;

  bool is_done() const {
    const data::Order& order = course->order;
    return order.options().size == 0 || order.position().epoch >= epochs;
  }
};

namespace {

// Numbers of samples, on the device of the samples. A GPU copies them from pinned memory, so that
// the program does not wait for the step that the GPU is computing.
at::Tensor rows_on(const at::Device& device, const std::vector<std::uint64_t>& samples) {
  const auto options = at::TensorOptions(at::kLong).pinned_memory(device.is_cuda());
  const at::Tensor rows = at::empty({static_cast<std::int64_t>(samples.size())}, options);
  std::copy(samples.begin(), samples.end(), rows.data_ptr<std::int64_t>());
  return rows.to(device, at::kLong, /*non_blocking=*/true);
}

}  // namespace

Shard shard(Job& job, at::Tensor x, at::Tensor y, const ShardOptions& options) {
  if (x.dim() < 1 || y.dim() < 1 || x.size(0) != y.size(0))
    adapter::refuse(ErrorCode::kInvalid,
                    fmt::format("x has {} samples and y has {}", x.dim() < 1 ? 0 : x.size(0),
                                y.dim() < 1 ? 0 : y.size(0)));
  if (options.batch < 1 || options.epochs < 0)
    adapter::refuse(ErrorCode::kInvalid,
                    "a shard needs a batch of at least 1 and epochs from 0 on");
  auto course = std::make_shared<data::ShardCourse>(
      data::OrderOptions{.size = static_cast<std::uint64_t>(x.size(0)),
                         .seed = options.seed,
                         .batch = options.batch,
                         .shuffle = options.shuffle,
                         .rank = job.rank(),
                         .workers = job.size()});
  return Shard(std::make_shared<Shard::State>(
      Shard::State{.x = std::move(x),
                   .y = std::move(y),
                   .epochs = static_cast<std::uint64_t>(options.epochs),
                   .course = std::move(course)}));
}

Shard Trainer::Impl::shard(at::Tensor x, at::Tensor y, const ShardOptions& options) {
  Shard made = tally::shard(job_, std::move(x), std::move(y), options);
  // Ranks that divide the data in different ways would read samples twice or never.
  const data::OrderOptions& order = made.course()->order.options();
  adapter::or_throw(
      exchange::check_same(job_.world(),
                           {"shards",
                            "setting",
                            {data::to_string(order), fmt::format("batch {}", order.batch),
                             fmt::format("epochs {}", options.epochs)}},
                           Deadline::after(std::chrono::minutes(5))));
  adapter::or_throw(shards_.add(made.course()));
  made.state_->capture_rule = capture_rule_;
  return made;
}

const std::shared_ptr<data::ShardCourse>& Shard::course() const { return state_->course; }

std::uint64_t Shard::size() const {
  return state_->course->order.steps_per_epoch() * state_->epochs;
}

Shard::Iterator Shard::begin() {
  Iterator first(state_);
  first.load();
  return first;
}

Shard::Iterator& Shard::Iterator::operator++() {
  load();
  return *this;
}

void Shard::Iterator::load() {
  if (state_->is_done()) {
    state_.reset();
    return;
  }
  data::Order& order = state_->course->order;
  batch_.epoch = order.position().epoch;
  const std::vector<std::uint64_t> samples = order.next();
  batch_.ends_epoch = order.at_epoch_end();
  const at::Tensor rows_x = rows_on(state_->x.device(), samples);
  const at::Tensor rows_y =
      state_->y.device() == state_->x.device() ? rows_x : rows_on(state_->y.device(), samples);
  adapter::CaptureRule* const rule = state_->capture_rule.get();
  if (rule == nullptr || !rule->wants_batches() || samples.size() != order.largest_batch()) {
    batch_.x = state_->x.index_select(0, rows_x);
    batch_.y = state_->y.index_select(0, rows_y);
    return;
  }
  if (!state_->fixed) {
    state_->fixed = std::make_shared<adapter::BatchTensors>(adapter::BatchTensors{
        .x = state_->x.index_select(0, rows_x), .y = state_->y.index_select(0, rows_y)});
  } else {
    at::index_select_out(state_->fixed->x, state_->x, 0, rows_x);
    at::index_select_out(state_->fixed->y, state_->y, 0, rows_y);
  }
  rule->loaded(state_->fixed);
  batch_.x = state_->fixed->x;
  batch_.y = state_->fixed->y;
}

}  // namespace tally
