#include "exchange/saved_model.h"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "exchange/check_same.h"
#include "exchange/state_names.h"

namespace tally::exchange {
namespace {

using checkpoint::TensorInfo;

// The tensors of the optimizer state: "fc1.weight/exp_avg".
std::vector<TensorInfo> state_tensors_of(const TrainedModel& model) {
  std::vector<TensorInfo> tensors;
  for (const ParameterInfo& info : model.parameters) {
    const DataType type = info.type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32;
    for (const std::string& name : state_names_of(info, model.optimizers[info.group]))
      tensors.push_back({.name = info.name + "/" + name, .type = type, .shape = info.shape});
  }
  return tensors;
}

Result<void> compare(const std::vector<TensorInfo>& expected, const std::vector<TensorInfo>& found,
                     const char* what) {
  const auto text = [](const std::vector<TensorInfo>& tensors, std::size_t i) {
    return i < tensors.size() ? to_string(tensors[i]) : "no further tensor";
  };
  for (std::size_t i = 0; i < std::max(expected.size(), found.size()); ++i)
    if (i >= expected.size() || i >= found.size() || expected[i] != found[i])
      return make_error(ErrorCode::kMismatch,
                        "the checkpoint is of another {}: expected {}, found {}", what,
                        text(expected, i), text(found, i));
  return {};
}

}  // namespace

Result<void> add_states(const TrainedModel& model, CheckpointState& exchange,
                        checkpoint::Content& content) {
  TALLY_TRY(const std::vector<SliceState> slices, exchange.states());
  content.state_tensors = state_tensors_of(model);
  for (const CodecTensor& tensor : exchange.codec_tensors())
    content.state_tensors.push_back(
        {.name = model.parameters[tensor.parameter].name + "/" + tensor.name,
         .shape = tensor.shape});
  std::map<std::string, std::size_t> index_of;
  for (std::size_t i = 0; i < content.state_tensors.size(); ++i)
    index_of[content.state_tensors[i].name] = i;
  content.pending = exchange.pending();
  const bool is_pending = content.pending != nullptr;
  const auto add = [&](std::size_t parameter, const std::string& state, checkpoint::Piece piece) {
    const auto found = index_of.find(model.parameters[parameter].name + "/" + state);
    TALLY_CHECK(found != index_of.end());
    piece.tensor = found->second;
    content.optimizer.push_back(piece);
  };
  for (const SliceState& slice : slices) {
    const ParameterInfo& info = model.parameters[slice.parameter];
    content.model.push_back({.tensor = slice.parameter,
                             .first = slice.first,
                             .bytes = slice.values,
                             .is_pending = is_pending});
    const auto names = state_names_of(info, model.optimizers[info.group]);
    for (std::size_t k = 0; k < slice.state.size(); ++k)
      add(slice.parameter, names[k],
          {.first = slice.first, .bytes = slice.state[k], .is_pending = is_pending});
  }
  TALLY_TRY(const std::vector<CodecState> states, exchange.codec_states());
  for (const CodecState& state : states)
    if (state.is_saved_here)
      add(state.parameter, tensor_name(state, exchange.sender().number),
          {.first = state.first, .bytes = std::as_bytes(state.values)});
  return {};
}

Result<void> check_fits(const TrainedModel& model, const std::vector<TensorInfo>& tensors,
                        const checkpoint::Reader& reader) {
  TALLY_TRY(compare(tensors, reader.tensors(), "model"));
  // The amount of codec state depends on the number of senders, and may belong to another codec.
  std::vector<TensorInfo> of_optimizer = reader.state_tensors();
  std::erase_if(of_optimizer, [](const TensorInfo& info) { return is_codec_tensor(info.name); });
  return compare(state_tensors_of(model), of_optimizer, "optimizer");
}

Result<void> restore_states(const TrainedModel& model, CheckpointState& exchange,
                            const checkpoint::Reader& reader, const SavedCourse& course) {
  const std::uint64_t updates = exchange.updates_of(course);
  if (model.codec.kind == plan::Codec::kOnebitAdam && updates >= model.codec.warmup &&
      !exchange.codec_tensors().empty()) {
    const std::vector<TensorInfo> saved = reader.state_tensors();
    const auto is_momentum = [](const TensorInfo& info) {
      return info.name.find("/codec.mean.") != std::string::npos;
    };
    if (std::none_of(saved.begin(), saved.end(), is_momentum))
      return make_error(ErrorCode::kMismatch,
                        "the checkpoint has {} updates without codec=onebit-adam, whose warm-up of "
                        "{} would be over: choose a longer one, as onebit-adam:{}",
                        updates, model.codec.warmup, updates + 100);
  }
  return exchange.restore(reader, course);
}

}  // namespace tally::exchange
