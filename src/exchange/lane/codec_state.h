#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/memory/parameter_layout.h"
#include "plan/codec_spec.h"
#include "tally/checkpoint.h"

// The state that codecs keep from step to step, and its names in checkpoints. It belongs to
// parameters and senders, not to buckets or servers:
//
//   PARAMETER/codec.residual.2   the residual of sender 2; likewise the other codec::state_names()
//   PARAMETER/codec.back         the residual of the means' way back, of all owners
//   PARAMETER/codec.q            powersgd: the factor that all ranks share, rank x columns
//
// A sender is a rank, or a host where several ranks of one host send together. If the number of
// senders equals that of the checkpoint, each sender gets its own state again and training
// continues bit for bit. Otherwise each sender gets the mean of all, which keeps the total
// residual. The same happens when the membership of a job changes, which a trainer survives by its
// checkpoint. If the checkpoint has no such state (another codec, or none), residuals begin at
// zero.
namespace tally::exchange {

// Whether gradients of this parameter are compressed. For auto: whether they may be after the
// choice.
bool is_compressed(const plan::CodecSpec& spec, const ParameterInfo& parameter);
// The shape of a parameter as powersgd sees it.
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;
};
Matrix matrix_of(const plan::CodecSpec& spec, const ParameterInfo& parameter);
// codec::PowerSgd::Options::seed of a parameter: the same on all ranks and servers.
std::uint64_t factor_seed(std::uint64_t seed, std::uint64_t first_element);
// The index of a parameter's first element in the model: codec::Draw::first of its first run.
std::uint64_t first_element_of(const std::vector<ParameterInfo>& parameters, std::size_t parameter);

// A range of elements of one such state that one rank has.
struct CodecState {
  std::size_t parameter = 0;
  std::string name;           // "residual", "back", "q"
  bool is_of_sender = true;   // each sender has its own
  bool is_saved_here = true;  // by this rank; shared state is saved by one rank
  std::uint64_t first = 0;    // element of the parameter
  std::span<float> values;
};

// A tensor of such state. The name omits the parameter: "codec.residual.2". All ranks have the same
// list.
struct CodecTensor {
  std::size_t parameter = 0;
  std::string name;
  std::vector<std::int64_t> shape;  // of float32
};
std::vector<CodecTensor> codec_tensors(const plan::CodecSpec& spec,
                                       const std::vector<ParameterInfo>& parameters, int senders);

// "codec.residual.2"
std::string tensor_name(const CodecState& state, int sender);
// Whether a checkpoint tensor is codec state: "fc1.weight/codec.back".
bool is_codec_tensor(std::string_view name);

struct Sender {
  int number = 0;
  int of = 1;
};
// Fills `states` from a checkpoint by the rules above. kMismatch for a tensor of another shape.
Result<void> read_states(const checkpoint::Reader& reader,
                         const std::vector<ParameterInfo>& parameters,
                         std::span<const CodecState> states, const Sender& sender);

}  // namespace tally::exchange
