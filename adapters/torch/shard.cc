#include <vector>

#include <fmt/format.h>

#include "adapters/torch/tensors.h"
#include "data/order.h"
#include "tally/torch.h"

namespace tally {

struct Shard::State {
  at::Tensor x;
  at::Tensor y;
  data::Order order;
  std::uint64_t batches = 0;
};

Shard shard(Job& job, at::Tensor x, at::Tensor y, const ShardOptions& options) {
  if (x.dim() < 1 || y.dim() < 1 || x.size(0) != y.size(0))
    adapter::refuse(ErrorCode::kInvalid,
                    fmt::format("x has {} samples and y has {}", x.dim() < 1 ? 0 : x.size(0),
                                y.dim() < 1 ? 0 : y.size(0)));
  if (options.batch < 1 || options.epochs < 0)
    adapter::refuse(ErrorCode::kInvalid,
                    "a shard needs a batch of at least 1 and epochs from 0 on");
  const data::Order order({.size = static_cast<std::uint64_t>(x.size(0)),
                           .seed = options.seed,
                           .batch = options.batch,
                           .shuffle = options.shuffle,
                           .rank = job.rank(),
                           .workers = job.size()});
  const std::uint64_t batches =
      order.steps_per_epoch() * static_cast<std::uint64_t>(options.epochs);
  return Shard(std::make_shared<Shard::State>(
      Shard::State{.x = std::move(x), .y = std::move(y), .order = order, .batches = batches}));
}

std::uint64_t Shard::size() const { return state_->batches; }

Shard::Iterator Shard::begin() {
  Iterator first(this, state_->batches);
  first.load();
  return first;
}

Shard::Iterator& Shard::Iterator::operator++() {
  --left_;
  load();
  return *this;
}

void Shard::Iterator::load() {
  if (left_ == 0) return;
  const std::vector<std::uint64_t> indices = shard_->state_->order.next();
  std::vector<std::int64_t> rows(indices.begin(), indices.end());
  const at::Tensor picked = at::tensor(rows, at::kLong);
  batch_.x = shard_->state_->x.index_select(0, picked.to(shard_->state_->x.device()));
  batch_.y = shard_->state_->y.index_select(0, picked.to(shard_->state_->y.device()));
}

}  // namespace tally
