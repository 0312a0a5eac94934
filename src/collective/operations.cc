#include "collective/operations.h"

#include "base/check.h"
#include "collective/algorithms.h"
#include "collective/message_task.h"
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

// One side of a send/receive pair. Messages of one sender with one tag arrive in the order sent.
class PointTask final : public Task {
 public:
  PointTask(Mailbox& mailbox, const Request& request, const wire::Signature& signature,
            Traffic& traffic)
      : mailbox_(mailbox), sending_(request.operation == Operation::kSend), peer_(request.root) {
    const std::size_t bytes = request.count * size_of(request.type);
    MutexLock lock(mailbox_.router().mutex);
    if (sending_) {
      outgoing_.header = {.kind = wire::FrameKind::kPoint,
                          .sequence = request.tag,
                          .step = mailbox_.next_point_number(peer_),
                          .signature = signature};
      outgoing_.payload = {static_cast<const std::byte*>(request.input), bytes};
      mailbox_.send(peer_, outgoing_);
      ++traffic.messages_sent;
      traffic.bytes_sent += bytes;
    } else {
      incoming_ = {.from = peer_,
                   .point = true,
                   .sequence = request.tag,
                   .signature = signature,
                   .into = static_cast<std::byte*>(request.output),
                   .bytes = bytes};
      mailbox_.expect(incoming_);
    }
    posted_ = true;
  }
  ~PointTask() override { cancel(); }

  Result<Progress> advance() override {
    MutexLock lock(mailbox_.router().mutex);
    const bool moved = mailbox_.router().progress();
    if (done()) return Progress::kComplete;
    if (mailbox_.failed()) return mailbox_.failure();
    return moved ? Progress::kMoved : Progress::kBlocked;
  }
  bool ready() const override { return done() || mailbox_.failed(); }
  std::vector<Rank> awaited() const override {
    return done() ? std::vector<Rank>() : std::vector<Rank>{peer_};
  }
  void cancel() override {
    MutexLock lock(mailbox_.router().mutex);
    if (!posted_ || done()) return;
    posted_ = false;
    if (sending_) {
      mailbox_.withdraw(peer_, outgoing_);
    } else {
      mailbox_.withdraw(incoming_);
    }
  }

 private:
  bool done() const { return sending_ ? outgoing_.sent() : incoming_.done; }

  Mailbox& mailbox_;
  const bool sending_;
  const Rank peer_;
  net::Outgoing outgoing_;
  Incoming incoming_;
  bool posted_ = false;
};

bool combines(Operation operation) {
  return reduces(operation) || operation == Operation::kScatter;
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
  const Operation operation = request.operation;
  if (operation == Operation::kBarrier) return plan;
  const bool at_root = rank == request.root;
  const bool from_root = operation == Operation::kScatter || operation == Operation::kBroadcast;
  const bool to_root = operation == Operation::kReduce || operation == Operation::kGather;
  const bool sliced = operation == Operation::kReduceScatter || operation == Operation::kScatter;
  if (!from_root || at_root) plan.input = input;
  if (!to_root || at_root) (sliced ? plan.own_slice : plan.output) = output;
  if (request.reduce_op == ReduceOp::kAverage && reduces(operation)) plan.divisor = ranks;
  return plan;
}

std::unique_ptr<Task> make_task(const Site& site, const Request& request, Algorithm algorithm,
                                std::uint32_t sequence, const wire::Signature& signature) {
  if (is_point(request))
    return std::make_unique<PointTask>(site.mailbox, request, signature, site.traffic);
  if (algorithm == Algorithm::kHierarchical) {
    return hierarchical_allreduce(site.area, site.mailbox, site.topology, request, sequence,
                                  signature, site.segments, site.traffic);
  }
  if (algorithm == Algorithm::kDirect && site.area != nullptr) {
    DirectPlan plan = direct_plan(request, site.rank, site.ranks);
    plan.slices = slices_for(request, site.ranks);
    const std::size_t element = size_of(plan.type);
    const std::size_t all = plan.slices.back().end * element;
    const std::size_t own =
        plan.slices[static_cast<std::size_t>(site.area->self())].size() * element;
    const net::Segment& segment = site.area->segment();
    const Notice notice{.sequence = 2 * sequence,
                        .signature = signature,
                        .input = place_of(segment, plan.input, plan.combine ? all : own),
                        .output = place_of(segment, plan.output, all)};
    site.area->announce(notice);
    return std::make_unique<DirectTask>(*site.area, site.mailbox, notice, std::move(plan));
  }
  if (site.area != nullptr) site.area->announce({.sequence = 2 * sequence, .signature = signature});
  return std::make_unique<MessageTask>(
      site.mailbox, schedule_for(request, site.rank, site.ranks, algorithm, site.segments),
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
