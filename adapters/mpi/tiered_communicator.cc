#include "adapters/mpi/tiered_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "collective/handle.h"
#include "collective/request.h"
#include "collective/schedule.h"
#include "kernel/reduce/reduce.h"

namespace tally::mpi {
namespace {

using collective::is_point;
using collective::OperationQueue;
using collective::Progress;

// A request that was refused leaves the communicator as it was.
bool ends_communicator(const Error& error) {
  return error.code != ErrorCode::kInvalid && error.code != ErrorCode::kExhausted &&
         error.code != ErrorCode::kClosed;
}

}  // namespace

// The communicators inside wait, so one call is the whole operation.
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
  if (watched_) watched_->registry.remove(0);
  close();
  queue_.reset();
}

void TieredCommunicator::be_watched(std::shared_ptr<collective::Watchable> rank) {
  watched_ = std::move(rank);
  members_.resize(static_cast<std::size_t>(size()));
  std::iota(members_.begin(), members_.end(), 0);
  watched_->registry.add(0, {.recorder = &recorder_, .members = &members_, .failure = [this] {
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

// The number of a host is the lowest rank of `all` on it.
Result<void> TieredCommunicator::connect(Deadline by) {
  std::int32_t host = all_->rank();
  TALLY_TRY(inside_->allreduce(std::span<std::int32_t>(&host, 1), ReduceOp::kMin, {.by = by}));
  std::vector<std::int32_t> hosts(static_cast<std::size_t>(size()));
  TALLY_TRY(all_->allgather(std::span<const std::int32_t>(&host, 1), std::span(hosts), {.by = by}));
  std::map<std::int32_t, int> ranks_of;
  for (const std::int32_t other : hosts) ++ranks_of[other];
  lanes_ = std::numeric_limits<int>::max();
  for (const auto& [first, ranks] : ranks_of) lanes_ = std::min(lanes_, ranks);
  const int lane = inside_->rank() < lanes_ ? inside_->rank() : -1;
  TALLY_TRY(across_, all_->split(lane, host, by));
  TALLY_TRY(points_, all_->split(0, rank(), by));
  return {};
}

Result<std::vector<std::span<std::byte>>> TieredCommunicator::share(const SharedBuffer& buffer,
                                                                    Deadline by) {
  const std::int32_t mine = rank();
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(inside_->size()));
  TALLY_TRY(
      inside_->allgather(std::span<const std::int32_t>(&mine, 1), std::span(ranks), {.by = by}));
  TALLY_TRY(const auto neighbours, inside_->share(buffer, by));
  std::vector<std::span<std::byte>> views(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < ranks.size(); ++i)
    views[static_cast<std::size_t>(ranks[i])] = neighbours[i];
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
  if (closed_) return Error{.code = ErrorCode::kClosed, .message = "the communicator was closed"};
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
  if (queue_ && !queue_->idle()) return start(request).wait();
  return run_here(with_deadline(request));
}

Handle TieredCommunicator::start(const Request& request) {
  if (is_point(request)) return points_->start(with_deadline(request));
  if (!options_.threads) {
    auto state = std::make_shared<Handle::State>();
    state->complete(run_here(with_deadline(request)));
    return Handle(state);
  }
  if (!queue_)
    queue_ = std::make_unique<OperationQueue>(static_cast<OperationQueue::Runner&>(*this));
  return queue_->push(with_deadline(request));
}

Result<void> TieredCommunicator::run_here(const Request& request) {
  TALLY_TRY(admit(request));
  const bool lanes = goes_by_lanes(request);
  const std::uint64_t record = recorder_.begin(
      sequence_++, request, lanes ? Algorithm::kHierarchical : Algorithm::kAuto, clock_.now());
  Result<void> outcome = lanes ? allreduce(request) : all_->run(request);
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

// The rank's slice lies in the scratch memory between the stages, because the input may be the
// output.
Result<void> TieredCommunicator::allreduce(const Request& request) {
  const std::size_t element = size_of(request.type);
  const int lane = inside_->rank();
  std::vector<std::size_t> slices;  // by rank of this host
  for (int other = 0; other < inside_->size(); ++other)
    slices.push_back(other < lanes_ ? collective::part_of(request.count, lanes_, other).size() : 0);
  const std::size_t own = slices[static_cast<std::size_t>(lane)];
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

// Both communicators split by the same colour and key, so their ranks have the same order.
Result<std::unique_ptr<Communicator>> TieredCommunicator::split(int colour, int key, Deadline by) {
  TALLY_TRY(run({.operation = Operation::kBarrier, .by = by}));
  TALLY_TRY(auto all, all_->split(colour, key, by));
  TALLY_TRY(auto inside, inside_->split(colour, key, by));
  if (all == nullptr) return std::unique_ptr<Communicator>();
  if (all->size() == inside->size()) return inside;  // one host
  Options options = options_;
  // Error::peer is a rank of the job, which has another number here. The message names it.
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
