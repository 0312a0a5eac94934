#include "adapters/mpi/tiered_communicator.h"

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "collective/handle.h"
#include "collective/request.h"
#include "kernel/reduce/reduce.h"

namespace tally::mpi {
namespace {

using collective::is_point;
using collective::OperationQueue;
using collective::Progress;

// Whether all later operations fail as well. The other codes refuse one request, and leave the
// communicator as it was.
bool ends_communicator(const Error& error) {
  return error.code != ErrorCode::kInvalid && error.code != ErrorCode::kExhausted &&
         error.code != ErrorCode::kClosed;
}

// The channel of the world in the registry.
constexpr std::uint32_t kWorldChannel = 0;

}  // namespace

// The underlying communicators block, so one advance() runs the whole operation.
class TieredCommunicator::Active final : public OperationQueue::Operation {
 public:
  Active(TieredCommunicator& communicator, const Request& request)
      : communicator_(communicator), request_(request) {}
  Result<Progress> advance() override {
    TALLY_TRY(communicator_.run_here(request_));
    return Progress::kComplete;
  }
  void conclude(const Result<void>& /*outcome*/) override {}

 private:
  TieredCommunicator& communicator_;
  const Request& request_;
};

TieredCommunicator::TieredCommunicator(std::shared_ptr<Communicator> all,
                                       std::shared_ptr<Communicator> inside, const Options& options)
    : all_(std::move(all)),
      inside_(std::move(inside)),
      options_(options),
      recorder_("all hosts", all_->rank(), all_->size()) {}

TieredCommunicator::~TieredCommunicator() {
  if (watched_) watched_->registry.remove(kWorldChannel);
  close();  // ends the operation that the thread of the queue waits in
  queue_.reset();
}

void TieredCommunicator::be_watched(std::shared_ptr<collective::Watchable> rank) {
  watched_ = std::move(rank);
  members_.resize(static_cast<std::size_t>(size()));
  std::iota(members_.begin(), members_.end(), 0);
  watched_->registry.add(kWorldChannel,
                         {.recorder = &recorder_, .members = &members_, .failure = [this] {
                            const MutexLock lock(mutex_);
                            return failure_;
                          }});
}

Result<std::unique_ptr<TieredCommunicator>> TieredCommunicator::make(
    std::shared_ptr<Communicator> all, std::shared_ptr<Communicator> inside, const Options& options,
    Deadline by) {
  std::unique_ptr<TieredCommunicator> made(
      new TieredCommunicator(std::move(all), std::move(inside), options));
  TALLY_TRY(made->connect(by));
  return made;
}

// Creates `across_` and `points_`. A host is identified by the lowest rank of `all_` on it. A rank
// without a lane passes a negative colour to split().
Result<void> TieredCommunicator::connect(Deadline by) {
  std::int32_t host = all_->rank();
  TALLY_TRY(inside_->allreduce(std::span<std::int32_t>(&host, 1), ReduceOp::kMin, {.by = by}));
  std::vector<std::int32_t> hosts(static_cast<std::size_t>(size()));
  TALLY_TRY(all_->allgather(std::span<const std::int32_t>(&host, 1), std::span(hosts), {.by = by}));
  topology_ = collective::topology_of(hosts, rank());
  TALLY_TRY(across_, all_->split(topology_.lane.empty() ? -1 : topology_.local, host, by));
  TALLY_TRY(points_, all_->split(0, rank(), by));
  return {};
}

// The views of ranks on other hosts stay empty.
Result<std::vector<std::span<std::byte>>> TieredCommunicator::share(const SharedBuffer& buffer,
                                                                    Deadline by) {
  const std::int32_t mine = rank();
  std::vector<std::int32_t> host_ranks(static_cast<std::size_t>(inside_->size()));
  TALLY_TRY(inside_->allgather(std::span<const std::int32_t>(&mine, 1), std::span(host_ranks),
                               {.by = by}));
  TALLY_TRY(const auto host_views, inside_->share(buffer, by));
  std::vector<std::span<std::byte>> views(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < host_ranks.size(); ++i)
    views[static_cast<std::size_t>(host_ranks[i])] = host_views[i];
  return views;
}

Request TieredCommunicator::with_deadline(const Request& request) const {
  Request complete = request;
  complete.by = deadline_of(request);
  return complete;
}

Deadline TieredCommunicator::deadline_of(const Request& request) const {
  return request.by ? *request.by : clock_.after(options_.operation_timeout);
}

Result<std::unique_ptr<OperationQueue::Operation>> TieredCommunicator::prepare(
    const Request& request, Deadline /*by*/) {
  return std::unique_ptr<OperationQueue::Operation>(std::make_unique<Active>(*this, request));
}

Result<void> TieredCommunicator::admit(const Request& request) const {
  {
    const MutexLock lock(mutex_);
    if (failure_) return *failure_;
  }
  if (closed_) return make_error(ErrorCode::kClosed, "the communicator was closed");
  return collective::check(request, rank(), size());
}

bool TieredCommunicator::goes_by_lanes(const Request& request) const {
  if (request.operation != Operation::kAllreduce) return false;
  if (request.algorithm == Algorithm::kHierarchical) return true;
  return request.algorithm == Algorithm::kAuto &&
         request.count * size_of(request.type) >= options_.least_bytes;
}

Result<void> TieredCommunicator::run(const Request& request) {
  if (is_point(request)) {
    TALLY_TRY(admit(request));
    return points_->run(with_deadline(request));
  }
  // Collectives run in the order of issue: this one waits behind those that were started.
  if (queue_ && !queue_->idle()) return start(request).wait();
  return run_here(with_deadline(request));
}

Handle TieredCommunicator::start(const Request& request) {
  if (is_point(request)) return points_->start(with_deadline(request));
  if (!options_.threads) return ended_handle(run_here(with_deadline(request)));
  if (!queue_)
    queue_ = std::make_unique<OperationQueue>(static_cast<OperationQueue::Runner&>(*this));
  return queue_->push(with_deadline(request));
}

Result<void> TieredCommunicator::run_here(const Request& request) {
  TALLY_TRY(admit(request));
  const bool by_lanes = goes_by_lanes(request);
  const std::uint64_t record = recorder_.begin(
      sequence_++, request, by_lanes ? Algorithm::kHierarchical : Algorithm::kAuto, clock_.now());
  Result<void> outcome = by_lanes ? allreduce(request) : all_->run(request);
  if (!outcome.has_value())
    if (auto why = options_.over()) outcome = *why;
  operations_.fetch_add(1, std::memory_order_relaxed);
  recorder_.end(record, clock_.now(), outcome);
  if (!outcome.has_value() && ends_communicator(outcome.error())) {
    const MutexLock lock(mutex_);
    if (!failure_) failure_ = outcome.error();
  }
  return outcome;
}

std::byte* TieredCommunicator::scratch(std::size_t bytes) {
  if (scratch_.bytes().size() >= bytes) return scratch_.bytes().data();
  scratch_ = SharedBuffer();
  auto grown = inside_->allocate(bytes);
  if (grown.has_value()) {
    scratch_ = *std::move(grown);
    return scratch_.bytes().data();
  }
  plain_scratch_.resize(std::max(bytes, plain_scratch_.size()));
  return plain_scratch_.data();
}

// Three stages: reduce-scatter inside the host, so that rank i has the host's sum of slice i;
// all-reduce of each slice by its lane across hosts; all-gather of the slices inside the host.
// Ranks without a lane have an empty slice. Between the stages the slice is in scratch memory,
// because the input and the output of the request may be the same memory.
Result<void> TieredCommunicator::allreduce(const Request& request) {
  const std::size_t element = size_of(request.type);
  std::vector<std::size_t> slices;  // elements, by rank of this host
  for (const collective::Part& part : collective::lane_parts(topology_, request.count))
    slices.push_back(part.size());
  const std::size_t own = slices[static_cast<std::size_t>(topology_.local)];
  const ReduceOp op = request.reduce_op == ReduceOp::kAverage ? ReduceOp::kSum : request.reduce_op;
  std::byte* const slice = scratch(std::max(own, std::size_t{1}) * element);
  TALLY_TRY(inside_->run({.operation = Operation::kReduceScatter,
                          .input = request.input,
                          .output = slice,
                          .type = request.type,
                          .reduce_op = op,
                          .counts = slices,
                          .by = request.by}));
  if (across_ != nullptr) {
    TALLY_TRY(across_->run({.operation = Operation::kAllreduce,
                            .input = slice,
                            .output = slice,
                            .count = own,
                            .type = request.type,
                            .reduce_op = op,
                            .by = request.by}));
  }
  if (request.reduce_op == ReduceOp::kAverage)
    kernel::kernels().divide(request.type, slice, own, size());
  return inside_->run({.operation = Operation::kAllgather,
                       .input = slice,
                       .output = request.output,
                       .type = request.type,
                       .counts = slices,
                       .by = request.by});
}

// all_ and inside_ are split by the same colour and key, so their new ranks have the same order.
// The barrier waits for the collectives that were started before.
Result<std::unique_ptr<Communicator>> TieredCommunicator::split(int colour, int key, Deadline by) {
  TALLY_TRY(run({.operation = Operation::kBarrier, .by = by}));
  TALLY_TRY(auto all, all_->split(colour, key, by));
  TALLY_TRY(auto inside, inside_->split(colour, key, by));
  if (all == nullptr) return std::unique_ptr<Communicator>();
  if (all->size() == inside->size()) return inside;  // all new ranks are on this host
  Options options = options_;
  // The peer of the error is a rank of the job, and may have another rank in the new communicator.
  // The message still names the peer by its rank in the job.
  options.over = [over = options_.over] {
    auto why = over();
    if (why) why->peer = kNoRank;
    return why;
  };
  TALLY_TRY(auto made, make(std::move(all), std::move(inside), options, by));
  return std::unique_ptr<Communicator>(std::move(made));
}

void TieredCommunicator::close() {
  if (closed_.exchange(true)) return;
  for (Communicator* const part : {points_.get(), across_.get(), inside_.get(), all_.get()})
    if (part != nullptr) part->close();
}

Traffic TieredCommunicator::traffic() const {
  Traffic sum;
  for (Communicator* const part : {points_.get(), across_.get(), inside_.get(), all_.get()}) {
    if (part == nullptr) continue;
    const Traffic traffic = part->traffic();
    sum.steps += traffic.steps;
    sum.messages_sent += traffic.messages_sent;
    sum.bytes_sent += traffic.bytes_sent;
  }
  sum.operations = operations_.load(std::memory_order_relaxed) + points_->traffic().operations;
  return sum;
}

std::string TieredCommunicator::recent_operations() const {
  std::string text = recorder_.text(clock_.now());
  text += "inside this host: " + inside_->recent_operations();
  if (across_ != nullptr) text += "this lane across hosts: " + across_->recent_operations();
  text += "all ranks: " + all_->recent_operations();
  return text + "messages: " + points_->recent_operations();
}

}  // namespace tally::mpi
