#include "adapters/torch/trainer_impl.h"
#include "exchange/saved_training.h"
#include "server/snapshot/row_snapshots.h"
#include "server/snapshot/saved_tables.h"

// The state of a trainer in checkpoints. Each rank saves the parameters and optimizer state of its
// slices; rank 0 saves the state that is equal on all ranks.
namespace tally {

using adapter::NamedTensor;
using adapter::or_throw;

std::vector<checkpoint::TensorInfo> Trainer::Impl::tensor_infos() const {
  std::vector<checkpoint::TensorInfo> infos;
  for (const auto* list : {&tensors_.trained, &tensors_.untrained})
    for (const NamedTensor& named : *list) infos.push_back(adapter::info_of(named));
  return infos;
}

checkpoint::Content Trainer::Impl::checkpoint() {
  synchronise_buffers();
  checkpoint::Content content{.step = exchange().steps(), .tensors = tensor_infos()};
  bound_->save(model_, content);
  content.state = exchange::to_text(
      {.course = exchange().checkpoint().course(),
       .schedule = options_.schedule.text(),
       .schedule_state = options_.schedule.state(),
       .loss_scale = options_.loss_scale ? std::optional(scaler_.scale) : std::nullopt,
       .good_updates = scaler_.good,
       .shards = shards_.positions()},
      model_);
  if (!exchange().meetings().is_first()) return content;
  saved_.clear();
  for (const NamedTensor& named : tensors_.untrained) {
    content.model.push_back({.tensor = tensors_.trained.size() + saved_.size(), .first = 0});
    saved_.push_back(named.tensor.detach().to(at::kCPU).contiguous());
    content.model.back().bytes = adapter::bytes_of(saved_.back());
  }
  return content;
}

void Trainer::Impl::restore(const checkpoint::Reader& reader) {
  if (reader.state().empty())
    adapter::refuse(
        ErrorCode::kInvalid,
        "the file has weights and no state to continue from: load it with load_weights()");
  or_throw(server::check_home_of_rows(reader, embedding_names_, embeddings_ != nullptr));
  or_throw(exchange::check_fits(model_, tensor_infos(), reader));
  exchange::SavedTraining saved = or_throw(exchange::parse_training(reader.state(), model_));
  saved.course.snapshot = server::row_snapshot_of(reader).string();
  or_throw(shards_.restore(std::move(saved.shards)));
  or_throw(options_.schedule.restore(saved.schedule_state));
  if (saved.loss_scale && options_.loss_scale) {
    scaler_.scale = *saved.loss_scale;
    scaler_.good = saved.good_updates;
  }
  // A graph has the addresses of the values, which may change.
  if (capture_rule_) capture_rule_->forget_graph();
  bound_->restore(model_, reader, saved.course);
  for (const NamedTensor& named : tensors_.untrained) {
    const at::Tensor host = at::empty_like(named.tensor, at::kCPU).contiguous();
    or_throw(reader.read(named.name, 0, adapter::bytes_of(host)));
    adapter::copy_into(named.tensor.detach(), host);
  }
  zero_grad();
  is_broken_ = false;
  job_.set_step(exchange().steps());
}

}  // namespace tally
