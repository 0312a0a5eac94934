#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "adapters/torch/trainer_impl.h"
#include "exchange/state_names.h"
#include "optimizer/update_rule.h"
#include "server/snapshot/row_snapshots.h"
#include "server/snapshot/saved_tables.h"

// The state of a trainer in checkpoints. Each rank saves the parameters and optimizer state of its
// slices; rank 0 saves the state that is equal on all ranks.
namespace tally {

using adapter::NamedTensor;
using adapter::or_throw;
using adapter::refuse;
using checkpoint::TensorInfo;
using nlohmann::json;

namespace {

TensorInfo checkpoint_info(const NamedTensor& named) {
  return {.name = named.name,
          .type = adapter::data_type_of(named.tensor, named.name),
          .shape = adapter::shape_of(named.tensor)};
}

std::string to_string(const TensorInfo& info) {
  return fmt::format("{} {} [{}]", info.name, tally::to_string(info.type),
                     fmt::join(info.shape, ", "));
}

// Failure kMismatch with the first difference.
void compare(const std::vector<TensorInfo>& expected, const std::vector<TensorInfo>& found,
             const char* what) {
  const std::size_t count = std::max(expected.size(), found.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (i < expected.size() && i < found.size() && expected[i] == found[i]) continue;
    refuse(ErrorCode::kMismatch,
           fmt::format("the checkpoint is of another {}: expected {}, found {}", what,
                       i < expected.size() ? to_string(expected[i]) : "no further tensor",
                       i < found.size() ? to_string(found[i]) : "no further tensor"));
  }
}

// Throws a json::exception if the entries are not as state_text() writes them.
std::vector<adapter::SavedShard> shards_from(const json& trainer) {
  std::vector<adapter::SavedShard> shards;
  if (!trainer.contains("shards")) return shards;
  for (const json& shard : trainer.at("shards"))
    shards.push_back({.done = {.epoch = shard.at("epoch").get<std::uint64_t>(),
                               .samples = shard.at("samples").get<std::uint64_t>()},
                      .size = shard.at("size").get<std::uint64_t>(),
                      .seed = shard.at("seed").get<std::uint64_t>(),
                      .shuffle = shard.at("shuffle").get<bool>()});
  return shards;
}

}  // namespace

std::vector<TensorInfo> Trainer::Impl::model_infos() const {
  std::vector<TensorInfo> infos;
  for (const auto* list : {&tensors_.trained, &tensors_.frozen, &tensors_.buffers})
    for (const NamedTensor& named : *list) infos.push_back(checkpoint_info(named));
  return infos;
}

std::vector<std::string> Trainer::Impl::state_names_of(std::size_t parameter) const {
  const exchange::ParameterInfo& info = infos_[parameter];
  return exchange::state_names_of(info, optimizers_[info.group]);
}

std::vector<TensorInfo> Trainer::Impl::state_infos() const {
  std::vector<TensorInfo> infos;
  for (std::size_t p = 0; p < tensors_.trained.size(); ++p) {
    const exchange::ParameterInfo& info = infos_[p];
    const DataType type = info.type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32;
    for (const std::string& name : state_names_of(p))
      infos.push_back({.name = info.name + "/" + name, .type = type, .shape = info.shape});
  }
  return infos;
}

// Adds codec state after the optimizer state.
void Trainer::Impl::add_codec_states(checkpoint::Content& content) {
  const auto& parameters = infos_;
  std::map<std::pair<std::size_t, std::string>, std::size_t> index_of;
  for (const exchange::CodecTensor& tensor : model_->exchange().checkpoint().codec_tensors()) {
    index_of[{tensor.parameter, tensor.name}] = content.state_tensors.size();
    content.state_tensors.push_back(
        {.name = parameters[tensor.parameter].name + "/" + tensor.name, .shape = tensor.shape});
  }
  const int sender = model_->exchange().checkpoint().sender().number;
  for (const exchange::CodecState& state :
       or_throw(model_->exchange().checkpoint().codec_states())) {
    if (!state.is_saved_here) continue;
    content.optimizer.push_back(
        {.tensor = index_of.at({state.parameter, exchange::tensor_name(state, sender)}),
         .first = state.first,
         .bytes = std::as_bytes(state.values)});
  }
}

checkpoint::Content Trainer::Impl::checkpoint() {
  synchronise_buffers();
  checkpoint::Content content{
      .step = steps(), .tensors = model_infos(), .state_tensors = state_infos()};
  std::vector<std::size_t> first_state;  // by parameter
  std::size_t states = 0;
  for (std::size_t p = 0; p < tensors_.trained.size(); ++p) {
    first_state.push_back(states);
    states += state_names_of(p).size();
  }
  for (const exchange::SliceState& slice : model_->states()) {
    content.model.push_back(
        {.tensor = slice.parameter, .first = slice.first, .bytes = slice.values});
    for (std::size_t k = 0; k < slice.state.size(); ++k)
      content.optimizer.push_back({.tensor = first_state[slice.parameter] + k,
                                   .first = slice.first,
                                   .bytes = slice.state[k]});
  }
  add_codec_states(content);
  content.state = state_text();
  if (!is_first()) return content;
  saved_.clear();
  for (const auto* list : {&tensors_.frozen, &tensors_.buffers})
    for (const NamedTensor& named : *list)
      saved_.push_back(named.tensor.detach().to(at::kCPU).contiguous());
  for (std::size_t i = 0; i < saved_.size(); ++i)
    content.model.push_back(
        {.tensor = tensors_.trained.size() + i, .first = 0, .bytes = adapter::bytes_of(saved_[i])});
  return content;
}

std::string Trainer::Impl::state_text() const {
  json parameter_steps = json::object();
  json order = json::array();
  const auto& parameters = infos_;
  const exchange::SavedCourse course = model_->exchange().checkpoint().course();
  for (std::size_t p = 0; p < parameters.size(); ++p)
    parameter_steps[parameters[p].name] = course.parameter_steps[p];
  for (const std::size_t p : course.order) order.push_back(parameters[p].name);
  json trainer = {{"steps", course.steps},
                  {"optimizer", to_string(optimizers_.front())},
                  {"schedule", options_.schedule.text()},
                  {"schedule_state", options_.schedule.state()},
                  {"parameter_steps", parameter_steps},
                  {"order", order}};
  if (!course.snapshot.empty()) trainer["snapshot"] = course.snapshot;
  for (const adapter::SavedShard& shard : shard_positions())
    trainer["shards"].push_back({{"epoch", shard.done.epoch},
                                 {"samples", shard.done.samples},
                                 {"size", shard.size},
                                 {"seed", shard.seed},
                                 {"shuffle", shard.shuffle}});
  return json{{"trainer", trainer}}.dump();
}

void Trainer::Impl::check_fits(const checkpoint::Reader& reader) const {
  or_throw(server::check_home_of_rows(reader, embedding_names_, embeddings_ != nullptr));
  compare(model_infos(), reader.tensors(), "model");
  // The amount of codec state depends on the number of senders, and may belong to another codec.
  std::vector<TensorInfo> of_optimizer = reader.state_tensors();
  std::erase_if(of_optimizer,
                [](const TensorInfo& info) { return exchange::is_codec_tensor(info.name); });
  compare(state_infos(), of_optimizer, "optimizer");
}

exchange::SavedCourse Trainer::Impl::restore_state(const std::string& text) {
  try {
    const json trainer = json::parse(text).at("trainer");
    const auto saved = parse_optimizer(trainer.at("optimizer").get<std::string>());
    if (saved && saved->kind != optimizers_.front().kind)
      refuse(ErrorCode::kMismatch,
             fmt::format("the checkpoint is of another optimizer: expected {}, found {}",
                         tally::to_string(optimizers_.front()), tally::to_string(*saved)));
    std::map<std::string, std::size_t> index_of;
    for (std::size_t p = 0; p < tensors_.trained.size(); ++p)
      index_of[tensors_.trained[p].name] = p;
    exchange::SavedCourse course{
        .steps = trainer.at("steps").get<std::uint64_t>(),
        .order = {},
        .parameter_steps = model_->exchange().checkpoint().course().parameter_steps,
        .snapshot = {}};
    for (const auto& name : trainer.at("order"))
      course.order.push_back(index_of.at(name.get<std::string>()));
    std::vector<std::size_t> sorted = course.order;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      refuse(ErrorCode::kCorrupt, "the checkpoint's order of parameters has a duplicate");
    for (const auto& [name, steps] : trainer.at("parameter_steps").items())
      course.parameter_steps[index_of.at(name)] = steps.get<std::uint64_t>();
    restore_shards(shards_from(trainer));
    or_throw(options_.schedule.restore(trainer.at("schedule_state").get<std::string>()));
    return course;
  } catch (const json::exception& error) {
    refuse(ErrorCode::kCorrupt, fmt::format("the checkpoint's state: {}", error.what()));
  } catch (const std::out_of_range&) {
    refuse(ErrorCode::kCorrupt, "the checkpoint's state names an unknown parameter");
  }
}

void Trainer::Impl::read_untrained(const checkpoint::Reader& reader) {
  for (const auto* list : {&tensors_.frozen, &tensors_.buffers}) {
    for (const NamedTensor& named : *list) {
      const at::Tensor host = at::empty_like(named.tensor, at::kCPU).contiguous();
      or_throw(reader.read(named.name, 0, adapter::bytes_of(host)));
      adapter::copy_into(named.tensor.detach(), host);
    }
  }
}

// Refuses to resume onebit-adam from a checkpoint without its state if the warm-up, which counts
// all updates, would already be over: the senders would have no momentum to continue from.
void Trainer::Impl::check_warm_up(const checkpoint::Reader& reader, std::uint64_t steps) const {
  if (plan_.codec.kind != plan::Codec::kOnebitAdam || steps < plan_.codec.warmup) return;
  const auto tensors = reader.state_tensors();
  const bool has_momentum = std::any_of(tensors.begin(), tensors.end(), [](const auto& info) {
    return info.name.find("/codec.mean.") != std::string::npos;
  });
  if (has_momentum || model_->exchange().checkpoint().codec_tensors().empty()) return;
  refuse(ErrorCode::kMismatch,
         fmt::format("the checkpoint has {} updates without codec=onebit-adam, whose warm-up of {} "
                     "would be over: choose a longer one, as onebit-adam:{}",
                     steps, plan_.codec.warmup, steps + 100));
}

void Trainer::Impl::restore(const checkpoint::Reader& reader) {
  if (reader.state().empty())
    refuse(ErrorCode::kInvalid,
           "the file has weights and no state to continue from: load it with load_weights()");
  check_fits(reader);
  exchange::SavedCourse course = restore_state(reader.state());
  course.snapshot = server::row_snapshot_of(reader).string();
  check_warm_up(reader, model_->exchange().checkpoint().updates_of(course));
  model_->restore(reader, course);
  read_untrained(reader);
  zero_grad();
  is_broken_ = false;
  job_.set_step(steps());
}

}  // namespace tally
