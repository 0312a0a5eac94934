#include "collective/operations.h"

#include "base/check.h"
#include "collective/algorithms.h"
#include "collective/message_task.h"
#include "collective/point_task.h"
#include "collective/request.h"
#include "collective/shared_area.h"

namespace tally::collective {
namespace {

Schedule allreduce_schedule(const Vector& vector, Rank rank, int ranks, Algorithm algorithm,
                            const RingSegments& cut) {
  switch (algorithm) {
    case Algorithm::kRing:
      return segmented_ring_allreduce(vector, rank, ranks, cut);
    case Algorithm::kHalvingDoubling:
      return halving_doubling_allreduce(vector, rank, ranks);
    default:
      return tree_allreduce(vector, rank, ranks);
  }
}

// The slices of parts, in elements.
std::vector<Part> slices_of(const Parts& parts, std::size_t element_bytes) {
  std::vector<Part> slices;
  for (int rank = 0; rank < parts.size(); ++rank) {
    const Block block = parts.block(Buffer::kOutput, rank);
    slices.push_back(
        {block.offset_bytes / element_bytes, (block.offset_bytes + block.bytes) / element_bytes});
  }
  return slices;
}

std::vector<Part> slices_for(const Request& request, int ranks) {
  const std::size_t element = size_of(request.type);
  switch (request.operation) {
    case Operation::kAllreduce:
    case Operation::kReduce:
      return slices_of(Parts::split({.count = request.count, .element_bytes = element}, ranks),
                       element);
    case Operation::kBroadcast: {
      std::vector<Part> slices;
      for (Rank rank = 0; rank < ranks; ++rank)
        slices.push_back(
            {rank > request.root ? request.count : 0, rank < request.root ? 0 : request.count});
      return slices;
    }
    case Operation::kBarrier:
      return std::vector<Part>(static_cast<std::size_t>(ranks));
    default:
      return slices_of(parts_of(request, ranks), element);
  }
}

bool combines(Operation operation) {
  return operation == Operation::kAllreduce || operation == Operation::kReduce ||
         operation == Operation::kReduceScatter || operation == Operation::kScatter;
}

}  // namespace

Schedule schedule_for(const Request& request, Rank rank, int ranks, Algorithm algorithm,
                      const RingSegments& cut) {
  const std::size_t element = size_of(request.type);
  const Vector vector{.count = request.count, .element_bytes = element};
  switch (request.operation) {
    case Operation::kBarrier:
      return dissemination_barrier(rank, ranks);
    case Operation::kAllreduce:
      return allreduce_schedule(vector, rank, ranks, algorithm, cut);
    case Operation::kReduceScatter:
      return ring_reduce_scatter(parts_of(request, ranks), rank);
    case Operation::kAllgather:
      return ring_allgather(parts_of(request, ranks), rank);
    case Operation::kBroadcast:
      return tree_broadcast(vector, request.root, rank, ranks);
    case Operation::kReduce:
      return tree_reduce(vector, request.root, rank, ranks);
    case Operation::kGather:
      return linear_gather(parts_of(request, ranks), request.root, rank);
    case Operation::kScatter:
      return linear_scatter(parts_of(request, ranks), request.root, rank);
    case Operation::kAllToAll:
      return pairwise_all_to_all(parts_of(request, ranks),
                                 request.receive_counts.empty()
                                     ? parts_of(request, ranks)
                                     : Parts::of(request.receive_counts, element),
                                 rank);
    case Operation::kSend:
    case Operation::kReceive:
      break;
  }
  TALLY_UNREACHABLE();
}

DirectPlan direct_plan(const Request& request, Rank rank, int ranks) {
  DirectPlan plan{
      .combine = combines(request.operation), .type = request.type, .op = request.reduce_op};
  const auto* input = static_cast<const std::byte*>(request.input);
  auto* output = static_cast<std::byte*>(request.output);
  const bool at_root = rank == request.root;
  const bool average = request.reduce_op == ReduceOp::kAverage;
  switch (request.operation) {
    case Operation::kAllreduce:
    case Operation::kReduce:
      plan.input = input;
      if (request.operation == Operation::kAllreduce || at_root) plan.output = output;
      break;
    case Operation::kReduceScatter:
      plan.input = input;
      plan.own_slice = output;
      break;
    case Operation::kScatter:
      if (at_root) plan.input = input;
      plan.own_slice = output;
      break;
    case Operation::kAllgather:
    case Operation::kGather:
      plan.input = input;
      if (request.operation == Operation::kAllgather || at_root) plan.output = output;
      break;
    case Operation::kBroadcast:
      if (at_root) plan.input = input;
      plan.output = output;
      break;
    default:
      break;
  }
  if (average && combines(request.operation) && request.operation != Operation::kScatter)
    plan.divisor = ranks;
  return plan;
}

Notice direct_notice(const SharedArea& area, const DirectPlan& plan, std::uint32_t sequence,
                     const wire::Signature& signature) {
  const std::size_t element = size_of(plan.type);
  const std::size_t all = plan.slices.empty() ? 0 : plan.slices.back().end * element;
  const std::size_t own =
      plan.slices.empty() ? 0 : plan.slices[static_cast<std::size_t>(area.self())].size() * element;
  return {.sequence = 2 * sequence,
          .signature = signature,
          .input = place_of(area.segment(), plan.input, plan.combine ? all : own),
          .output = place_of(area.segment(), plan.output, all)};
}

std::unique_ptr<Task> make_task(const Site& site, const Request& request, Algorithm algorithm,
                                std::uint32_t sequence, const wire::Signature& signature) {
  if (is_point(request))
    return std::make_unique<PointTask>(site.mailbox, request, signature, site.traffic);
  if (algorithm == Algorithm::kHierarchical) {
    return hierarchical_allreduce(site.area, site.mailbox, site.hosts, site.rank, request, sequence,
                                  signature, site.traffic);
  }
  if (algorithm == Algorithm::kDirect && site.area != nullptr) {
    DirectPlan plan = direct_plan(request, site.rank, site.ranks);
    plan.slices = slices_for(request, site.ranks);
    const Notice notice = direct_notice(*site.area, plan, sequence, signature);
    site.area->announce(notice);
    return std::make_unique<DirectTask>(*site.area, site.mailbox, notice, std::move(plan));
  }
  if (site.area != nullptr) site.area->announce({.sequence = 2 * sequence, .signature = signature});
  return std::make_unique<MessageTask>(
      site.mailbox,
      schedule_for(request, site.rank, site.ranks, algorithm, ring_segments(site.mailbox)),
      MessageTask::Options{.input = static_cast<const std::byte*>(request.input),
                           .output = static_cast<std::byte*>(request.output),
                           .sequence = sequence,
                           .signature = signature,
                           .type = request.type,
                           .op = request.reduce_op,
                           .divisor = request.reduce_op == ReduceOp::kAverage ? site.ranks : 1},
      site.traffic);
}

}  // namespace tally::collective
