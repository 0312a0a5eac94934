#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/codec_spec.h"
#include "tally/checkpoint.h"
#include "train/parameter_layout.h"

// What codecs remember from step to step, and its names in checkpoints. It belongs to parameters
// and senders, not to buckets or servers:
//
//   PARAMETER/codec.residual.2   what sender 2 has left out so far; likewise the other names of
//   codec::state_names() PARAMETER/codec.back         what the means' way back has left out,
//   wherever that was PARAMETER/codec.q            powersgd: everybody's factor, rank x columns
//
// A sender is a rank, or a host where several ranks of one send together. With as many senders as
// the checkpoint had each gets its own again, and training goes on with the same bits. With another
// number each gets the mean of all, so that what is still to come of it stays the same; so it is,
// too, when the membership of a job changes, which a trainer survives by its checkpoint. Of a
// checkpoint without (another codec, or none) residuals begin empty.
namespace tally::train {

// Whether gradients of this parameter are compressed. Of auto: what may be, once there is a choice.
bool is_compressed(const plan::CodecSpec& spec, const ParameterInfo& parameter);
// Rows and columns that powersgd sees.
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;
};
Matrix matrix_of(const plan::CodecSpec& spec, const ParameterInfo& parameter);
// codec::PowerSgd::Options::seed of a parameter: the same wherever it lives.
std::uint64_t factor_seed(std::uint64_t seed, std::uint64_t first_element);
// Which of the model's elements a parameter begins with: codec::Draw::first of its first run.
std::uint64_t first_element_of(const std::vector<ParameterInfo>& parameters, std::size_t parameter);

// Some elements of such a memory that one rank has.
struct CodecState {
  std::size_t parameter = 0;
  std::string name;           // "residual", "back", "q"
  bool is_of_sender = true;   // each has one
  bool is_saved_here = true;  // by this rank: what all have is saved by one
  std::uint64_t first = 0;    // element
  std::span<float> values;
};

// All tensors of such memories, without the parameters' names: "codec.residual.2". The same on all
// ranks.
struct CodecTensor {
  std::size_t parameter = 0;
  std::string name;
  std::vector<std::int64_t> shape;  // of float32
};
std::vector<CodecTensor> codec_tensors(const plan::CodecSpec& spec,
                                       const std::vector<ParameterInfo>& parameters, int senders);

// "codec.residual.2"
std::string tensor_name(const CodecState& state, int sender);
// Whether a tensor of a checkpoint is such a memory: "fc1.weight/codec.back".
bool is_codec_tensor(std::string_view name);

struct Sender {
  int number = 0;
  int of = 1;
};
// Fills `states` from a checkpoint, as said above. kMismatch for a tensor of another shape.
Result<void> read_states(const checkpoint::Reader& reader,
                         const std::vector<ParameterInfo>& parameters,
                         std::span<const CodecState> states, const Sender& sender);

}  // namespace tally::train
