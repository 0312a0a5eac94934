#include "collective/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/errors.h"

namespace tally::collective {
namespace {

// The algorithms of an operation across a transport, best for small messages first.
std::vector<Algorithm> message_algorithms(Operation operation) {
  switch (operation) {
    case Operation::kAllreduce:
      return {Algorithm::kTree, Algorithm::kHalvingDoubling, Algorithm::kRing};
    case Operation::kReduceScatter:
    case Operation::kAllgather:
      return {Algorithm::kRing};
    case Operation::kBarrier:
    case Operation::kBroadcast:
    case Operation::kReduce:
      return {Algorithm::kTree};
    case Operation::kGather:
    case Operation::kScatter:
    case Operation::kAllToAll:
    case Operation::kSend:
    case Operation::kReceive:
      return {Algorithm::kPairwise};
  }
  return {};
}

bool has_direct(Operation operation) {
  return operation != Operation::kAllToAll && operation != Operation::kSend &&
         operation != Operation::kReceive;
}

std::vector<Algorithm> possible(Operation operation, const Placement& placement) {
  std::vector<Algorithm> algorithms = message_algorithms(operation);
  if (placement.one_host() && has_direct(operation)) algorithms.push_back(Algorithm::kDirect);
  if (placement.several_per_host() && operation == Operation::kAllreduce)
    algorithms.push_back(Algorithm::kHierarchical);
  return algorithms;
}

Algorithm fastest_allreduce(std::size_t bytes, const Placement& placement) {
  if (placement.several_per_host()) return Algorithm::kHierarchical;
  if (bytes <= kTreeBytes && placement.ranks > 2) return Algorithm::kTree;
  if (bytes <= kHalvingDoublingBytes) return Algorithm::kHalvingDoubling;
  return Algorithm::kRing;
}

}  // namespace

Result<Algorithm> choose(const Request& request, const Placement& placement) {
  if (request.algorithm == Algorithm::kAuto) {
    if (placement.one_host() && placement.ranks > 1 && has_direct(request.operation))
      return Algorithm::kDirect;
    if (request.operation == Operation::kAllreduce)
      return fastest_allreduce(request.count * size_of(request.type), placement);
    return message_algorithms(request.operation).front();
  }
  const std::vector<Algorithm> algorithms = possible(request.operation, placement);
  if (std::find(algorithms.begin(), algorithms.end(), request.algorithm) != algorithms.end())
    return request.algorithm;
  std::string names;
  for (const Algorithm algorithm : algorithms)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", to_string(algorithm));
  return invalid("{} cannot go by {} here; possible: {}", to_string(request.operation),
                 to_string(request.algorithm), names);
}

}  // namespace tally::collective
