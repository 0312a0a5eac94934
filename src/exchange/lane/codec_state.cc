#include "exchange/lane/codec_state.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "codec/encoder/encoder.h"

namespace tally::exchange {
namespace {

constexpr std::string_view kMark = "/codec.";
constexpr std::string_view kFactor = "q";

// Checkpoint tensors by name.
using Index = std::map<std::string_view, const checkpoint::TensorInfo*>;

struct Saved {
  const checkpoint::Reader& reader;
  const std::vector<ParameterInfo>& parameters;
  Index index;

  // The tensor of a state, or null.
  const checkpoint::TensorInfo* find(const CodecState& state, int sender) const {
    const std::string name = parameters[state.parameter].name + "/" + tensor_name(state, sender);
    const auto found = index.find(name);
    return found == index.end() ? nullptr : found->second;
  }
  Result<void> read(const CodecState& state, int sender, std::span<float> out) const {
    const checkpoint::TensorInfo& info = *find(state, sender);
    return reader.read_state(info.name, state.first, std::as_writable_bytes(out));
  }
};

Result<void> check_shape(const checkpoint::TensorInfo& info, const ParameterInfo& parameter) {
  if (info.type == DataType::kFloat32 && info.shape == parameter.shape) return {};
  return make_error(ErrorCode::kMismatch, "the checkpoint's {} is {} [{}], where {} has [{}]",
                    info.name, to_string(info.type), fmt::join(info.shape, ", "), parameter.name,
                    fmt::join(parameter.shape, ", "));
}

Result<void> read_of_sender(const Saved& saved, const CodecState& state, const Sender& sender) {
  int senders = 0;
  for (; const auto* const info = saved.find(state, senders); ++senders)
    TALLY_TRY(check_shape(*info, saved.parameters[state.parameter]));
  if (senders == sender.of) return saved.read(state, sender.number, state.values);
  std::fill(state.values.begin(), state.values.end(), 0.0F);
  std::vector<float> one(state.values.size());
  for (int s = 0; s < senders; ++s) {
    TALLY_TRY(saved.read(state, s, one));
    for (std::size_t i = 0; i < one.size(); ++i)
      state.values[i] += one[i] / static_cast<float>(senders);
  }
  return {};
}

Result<void> read_back(const Saved& saved, const CodecState& state) {
  const checkpoint::TensorInfo* const info = saved.find(state, 0);
  if (info == nullptr) {
    std::fill(state.values.begin(), state.values.end(), 0.0F);
    return {};
  }
  TALLY_TRY(check_shape(*info, saved.parameters[state.parameter]));
  return saved.read(state, 0, state.values);
}

// A factor of a different powersgd rank is useless. The initial factor, which is equal on all
// ranks, then stays.
Result<void> read_factor(const Saved& saved, const CodecState& state) {
  const checkpoint::TensorInfo* const info = saved.find(state, 0);
  if (info == nullptr || info->type != DataType::kFloat32) return {};
  std::size_t count = 1;
  for (const std::int64_t extent : info->shape) count *= static_cast<std::size_t>(extent);
  return count == state.values.size() ? saved.read(state, 0, state.values) : Result<void>{};
}

}  // namespace

bool is_compressed(const plan::CodecSpec& spec, const ParameterInfo& parameter) {
  return parameter.type != DataType::kFloat64 && parameter.count() > 0 &&
         codec::is_compressed(spec, parameter.shape);
}

Matrix matrix_of(const plan::CodecSpec& spec, const ParameterInfo& parameter) {
  Matrix matrix{.rows = static_cast<std::size_t>(parameter.shape.front())};
  matrix.columns = parameter.count() / matrix.rows;
  matrix.rank = std::min({static_cast<std::size_t>(spec.rank), matrix.rows, matrix.columns});
  return matrix;
}

std::uint64_t factor_seed(std::uint64_t seed, std::uint64_t first_element) {
  return Rng(Rng(seed).next() ^ first_element).next();
}

std::uint64_t first_element_of(const std::vector<ParameterInfo>& parameters,
                               std::size_t parameter) {
  std::uint64_t elements = 0;
  for (std::size_t p = 0; p < parameter; ++p) elements += parameters[p].count();
  return elements;
}

std::string tensor_name(const CodecState& state, int sender) {
  return state.is_of_sender ? fmt::format("codec.{}.{}", state.name, sender)
                            : "codec." + state.name;
}

bool is_codec_tensor(std::string_view name) { return name.find(kMark) != std::string_view::npos; }

std::vector<CodecTensor> codec_tensors(const plan::CodecSpec& spec,
                                       const std::vector<ParameterInfo>& parameters, int senders) {
  std::vector<CodecTensor> tensors;
  if (spec.kind == plan::Codec::kNone || spec.kind == plan::Codec::kAuto) return tensors;
  const bool is_low_rank = spec.kind == plan::Codec::kPowersgd;
  std::vector<std::string> names;
  if (!is_low_rank) names = codec::state_names(spec);
  if (is_low_rank && spec.feedback) names = {"residual"};
  const bool has_back = !is_low_rank && codec::make_broadcast_codec(spec).feedback;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (!is_compressed(spec, parameters[p])) continue;
    for (const std::string& name : names)
      for (int s = 0; s < senders; ++s)
        tensors.push_back({p, tensor_name({.name = name}, s), parameters[p].shape});
    if (has_back) tensors.push_back({p, "codec.back", parameters[p].shape});
    if (!is_low_rank) continue;
    const Matrix matrix = matrix_of(spec, parameters[p]);
    tensors.push_back(
        {p,
         "codec.q",
         {static_cast<std::int64_t>(matrix.rank), static_cast<std::int64_t>(matrix.columns)}});
  }
  return tensors;
}

Result<void> read_states(const checkpoint::Reader& reader,
                         const std::vector<ParameterInfo>& parameters,
                         std::span<const CodecState> states, const Sender& sender) {
  Saved saved{.reader = reader, .parameters = parameters};
  for (const checkpoint::TensorInfo& info : reader.state_tensors())
    if (is_codec_tensor(info.name)) saved.index.emplace(info.name, &info);
  for (const CodecState& state : states) {
    if (state.is_of_sender) {
      TALLY_TRY(read_of_sender(saved, state, sender));
    } else {
      TALLY_TRY(state.name == kFactor ? read_factor(saved, state) : read_back(saved, state));
    }
  }
  return {};
}

}  // namespace tally::exchange
