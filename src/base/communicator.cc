#include "tally/communicator.h"

#include "base/errors.h"
#include "base/names.h"

namespace tally {

std::string_view to_string(DataType type) {
  return name_in<DataType::kInt64>(
      {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64"}, type);
}

std::string_view to_string(ReduceOp op) {
  return name_in<ReduceOp::kProduct>({"sum", "average", "min", "max", "product"}, op);
}

std::string_view to_string(Operation operation) {
  return name_in<Operation::kReceive>(
      {"barrier", "allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "gather",
       "scatter", "all_to_all", "send", "receive"},
      operation);
}

std::string_view to_string(Algorithm algorithm) {
  return name_in<Algorithm::kPairwise>(
      {"auto", "direct", "ring", "halving-doubling", "tree", "hierarchical", "pairwise"},
      algorithm);
}

void Communicator::abort(const Error& /*why*/) { close(); }

Result<void> Communicator::barrier(const Call& call) {
  return run({.operation = Operation::kBarrier, .algorithm = call.algorithm, .by = call.by});
}

Error Communicator::sizes_differ(std::size_t input, std::size_t output) const {
  return invalid("an input of {} elements does not fit an output of {}", input, output);
}

}  // namespace tally
