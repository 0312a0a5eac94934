#include <fmt/format.h>

#include "tally/communicator.h"

namespace tally {

std::string_view to_string(Operation operation) {
  switch (operation) {
    case Operation::kBarrier:
      return "barrier";
    case Operation::kAllreduce:
      return "allreduce";
    case Operation::kReduceScatter:
      return "reduce_scatter";
    case Operation::kAllgather:
      return "allgather";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kReduce:
      return "reduce";
    case Operation::kGather:
      return "gather";
    case Operation::kScatter:
      return "scatter";
    case Operation::kAllToAll:
      return "all_to_all";
    case Operation::kSend:
      return "send";
    case Operation::kReceive:
      return "receive";
  }
  return "unknown";
}

std::string_view to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kAuto:
      return "auto";
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kHalvingDoubling:
      return "halving-doubling";
    case Algorithm::kTree:
      return "tree";
    case Algorithm::kHierarchical:
      return "hierarchical";
    case Algorithm::kPairwise:
      return "pairwise";
  }
  return "unknown";
}

Result<void> Communicator::barrier(const Call& call) {
  return run({.operation = Operation::kBarrier, .algorithm = call.algorithm, .by = call.by});
}

Error Communicator::sizes_differ(std::size_t input, std::size_t output) const {
  return {.code = ErrorCode::kInvalid,
          .message =
              fmt::format("an input of {} elements does not fit an output of {}", input, output)};
}

}  // namespace tally
