// A schedule over MPI messages. A block is cut into messages of message_elements(). All sends and
// receives of a step start at once, receives first. A block that is combined arrives through two
// slots: while one message is added, the next one arrives in the other slot.
#include "adapters/mpi/mpi_operation.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "collective/request.h"
#include "kernel/reduce/reduce.h"

namespace tally::mpi {
namespace {

using collective::Action;
using collective::ActionKind;
using collective::Block;
using collective::Buffer;

constexpr std::size_t kSlots = 2;

// Whether the schedule of an all-reduce can be used again.
bool same_allreduce(const Request& a, const Request& b) {
  return a.operation == Operation::kAllreduce && b.operation == Operation::kAllreduce &&
         a.count == b.count && size_of(a.type) == size_of(b.type);
}

IntParts int_parts(std::span<const std::size_t> counts) {
  IntParts parts;
  int start = 0;
  for (const std::size_t count : counts) {
    parts.counts.push_back(static_cast<int>(count));
    parts.starts.push_back(start);
    start += static_cast<int>(count);
  }
  return parts;
}

// Starts the library's non-blocking collective for a request with is_library_call(). Fills `parts`
// if the request has counts. ReduceOp::kAverage sums; the caller divides.
Result<MPI_Request> start_library_call(const Scene& scene, const Request& r, IntParts& parts) {
  const MPI_Datatype type = type_of(r.type);
  const MPI_Op op = scene.ops->of(r.type, r.reduce_op);
  const MPI_Comm comm = scene.comm;
  const bool at_root = scene.site.rank == r.root;
  const int count = static_cast<int>(r.count);
  const bool equal = r.counts.empty();
  parts = int_parts(r.counts);
  const int own = equal ? count : parts.counts[static_cast<std::size_t>(scene.site.rank)];
  const int* const counts = parts.counts.data();
  const int* const starts = parts.starts.data();
  const void* const input = r.input == r.output ? MPI_IN_PLACE : r.input;
  MPI_Request started = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  switch (r.operation) {
    case Operation::kAllreduce:
      code = MPI_Iallreduce(input, r.output, count, type, op, comm, &started);
      break;
    case Operation::kBroadcast:
      if (at_root && r.input != r.output && count > 0)
        std::memcpy(r.output, r.input, r.count * size_of(r.type));
      code = MPI_Ibcast(r.output, count, type, r.root, comm, &started);
      break;
    case Operation::kReduce:
      code = at_root ? MPI_Ireduce(input, r.output, count, type, op, r.root, comm, &started)
                     : MPI_Ireduce(r.input, nullptr, count, type, op, r.root, comm, &started);
      break;
    case Operation::kReduceScatter:
      code = equal ? MPI_Ireduce_scatter_block(r.input, r.output, count, type, op, comm, &started)
                   : MPI_Ireduce_scatter(r.input, r.output, counts, type, op, comm, &started);
      break;
    case Operation::kAllgather:
      code = equal ? MPI_Iallgather(r.input, own, type, r.output, own, type, comm, &started)
                   : MPI_Iallgatherv(r.input, own, type, r.output, counts, starts, type, comm,
                                     &started);
      break;
    case Operation::kGather:
      code = equal ? MPI_Igather(r.input, own, type, r.output, own, type, r.root, comm, &started)
                   : MPI_Igatherv(r.input, own, type, r.output, counts, starts, type, r.root, comm,
                                  &started);
      break;
    case Operation::kScatter:
      code = equal ? MPI_Iscatter(r.input, own, type, r.output, own, type, r.root, comm, &started)
                   : MPI_Iscatterv(r.input, counts, starts, type, r.output, own, type, r.root, comm,
                                   &started);
      break;
    case Operation::kAllToAll:
      code = MPI_Ialltoall(r.input, count, type, r.output, count, type, comm, &started);
      break;
    case Operation::kBarrier:
      code = MPI_Ibarrier(comm, &started);
      break;
    case Operation::kSend:
    case Operation::kReceive:
      break;
  }
  TALLY_TRY(outcome_of(code, to_string(r.operation)));
  return started;
}

// False if the receive can be neither cancelled nor completed: a message is just arriving.
bool cancel_receive(MPI_Request& request) {
  constexpr int kLooks = 1000;
  if (MPI_Cancel(&request) != MPI_SUCCESS) return false;
  int done = 0;
  for (int look = 0; look < kLooks && done == 0; ++look)
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
  return done != 0;
}

}  // namespace

void MpiOperation::prepare(const Request& request) {
  const bool repeated = !library_call_ && same_allreduce(request, request_);
  request_ = request;
  library_call_ = is_library_call(request, scene_.site);
  begun_ = false;
  complete_ = false;
  step_ = 0;
  if (library_call_ || repeated) return;
  schedule_ = schedule_of(request, scene_.site);
  message_elements_ = message_elements(request, scene_.site);
  reserve_scratch();
}

Result<bool> MpiOperation::advance() {
  {
    const auto entry = process_.enter();
    TALLY_TRY(complete_, library_call_ ? advance_library_call() : advance_schedule());
  }
  if (complete_ && library_call_) divide_result();
  return complete_;
}

Result<bool> MpiOperation::advance_library_call() {
  if (!begun_) {
    TALLY_TRY(library_request_, start_library_call(scene_, request_, parts_));
    begun_ = true;
  }
  int done = 0;
  TALLY_TRY(outcome_of(MPI_Test(&library_request_, &done, MPI_STATUS_IGNORE), "MPI_Test"));
  return done != 0;
}

Result<bool> MpiOperation::advance_schedule() {
  while (step_ < schedule_.step_count()) {
    if (!begun_) TALLY_TRY(begin_step());
    bool all = true;
    for (Transfer& transfer : transfers_) {
      TALLY_TRY(const bool done, advance_transfer(transfer));
      all = all && done;
    }
    if (!all) return false;
    ++step_;
    begun_ = false;
  }
  return true;
}

std::byte* MpiOperation::at(const Block& block) {
  switch (block.buffer) {
    case Buffer::kInput:
      // A schedule only reads its input.
      return static_cast<std::byte*>(const_cast<void*>(request_.input)) + block.offset_bytes;
    case Buffer::kOutput:
      return static_cast<std::byte*>(request_.output) + block.offset_bytes;
    case Buffer::kScratch:
      break;
  }
  return scratch_.get() + block.offset_bytes;
}

std::byte* MpiOperation::slot(const Transfer& transfer, std::size_t message) {
  const std::size_t index = transfer.first_slot + message % kSlots;
  return scratch_.get() + schedule_.scratch_bytes() + index * slot_bytes_;
}

// Slots for the step that combines most blocks.
void MpiOperation::reserve_scratch() {
  const std::size_t element = size_of(request_.type);
  std::size_t slots = 0;
  slot_bytes_ = 0;
  for (std::size_t step = 0; step < schedule_.step_count(); ++step) {
    std::size_t combined = 0;
    for (const Action& action : schedule_.step(step)) {
      if (action.kind != ActionKind::kCombine) continue;
      ++combined;
      slot_bytes_ =
          std::max(slot_bytes_, std::min(action.block.bytes, message_elements_ * element));
    }
    slots = std::max(slots, combined * kSlots);
  }
  const std::size_t bytes = schedule_.scratch_bytes() + slots * slot_bytes_;
  if (bytes <= scratch_bytes_) return;
  scratch_.reset(new std::byte[bytes]);
  scratch_bytes_ = bytes;
}

Result<void> MpiOperation::begin_step() {
  begun_ = true;
  transfers_.clear();
  std::size_t requests = 0;
  std::size_t slots = 0;
  const std::size_t element = size_of(request_.type);
  for (const Action& action : schedule_.step(step_)) {
    std::byte* const data = at(action.block);
    const std::size_t count = action.block.bytes / element;
    if (action.kind == ActionKind::kCopy) {
      const std::byte* const source = at(action.source);
      if (source != data && count > 0) std::memcpy(data, source, action.block.bytes);
      continue;
    }
    if (action.kind == ActionKind::kDivide) {
      if (request_.reduce_op == ReduceOp::kAverage && count > 0)
        kernel::kernels().divide(request_.type, data, count, scene_.site.ranks);
      continue;
    }
    // An empty block is one empty message.
    const std::size_t messages =
        std::max<std::size_t>(1, (count + message_elements_ - 1) / message_elements_);
    transfers_.push_back({.kind = action.kind,
                          .peer = action.peer,
                          .tag = static_cast<int>(action.message),
                          .data = data,
                          .count = count,
                          .first_request = requests,
                          .first_slot = slots,
                          .messages = messages});
    requests += messages;
    if (action.kind == ActionKind::kCombine) slots += kSlots;
  }
  requests_.assign(requests, MPI_REQUEST_NULL);
  for (Transfer& transfer : transfers_) {
    if (transfer.kind == ActionKind::kSend) continue;
    const bool combines = transfer.kind == ActionKind::kCombine;
    const std::size_t start = combines ? std::min(kSlots, transfer.messages) : transfer.messages;
    while (transfer.posted < start) TALLY_TRY(post(transfer));
  }
  for (Transfer& transfer : transfers_)
    while (transfer.kind == ActionKind::kSend && transfer.posted < transfer.messages)
      TALLY_TRY(post(transfer));
  return {};
}

// Elements of a message.
std::size_t MpiOperation::length(const Transfer& transfer, std::size_t message) const {
  return std::min(message_elements_, transfer.count - message * message_elements_);
}

// Starts the next message.
Result<void> MpiOperation::post(Transfer& transfer) {
  const std::size_t message = transfer.posted++;
  const int count = static_cast<int>(length(transfer, message));
  const MPI_Datatype type = type_of(request_.type);
  const MPI_Comm comm = collective::is_point(request_) ? scene_.points : scene_.comm;
  MPI_Request& request = requests_[transfer.first_request + message];
  std::byte* data = transfer.data + message * message_elements_ * size_of(request_.type);
  if (transfer.kind == ActionKind::kSend)
    return outcome_of(MPI_Isend(data, count, type, transfer.peer, transfer.tag, comm, &request),
                      "MPI_Isend");
  if (transfer.kind == ActionKind::kCombine) data = slot(transfer, message);
  return outcome_of(MPI_Irecv(data, count, type, transfer.peer, transfer.tag, comm, &request),
                    "MPI_Irecv");
}

Result<bool> MpiOperation::advance_transfer(Transfer& transfer) {
  for (; transfer.done < transfer.messages; ++transfer.done) {
    int done = 0;
    MPI_Status status;
    TALLY_TRY(outcome_of(
        MPI_Test(&requests_[transfer.first_request + transfer.done], &done, &status), "MPI_Test"));
    if (done == 0) return false;
    if (transfer.kind == ActionKind::kSend) continue;
    const std::size_t count = length(transfer, transfer.done);
    int arrived = 0;
    TALLY_TRY(
        outcome_of(MPI_Get_count(&status, type_of(request_.type), &arrived), "MPI_Get_count"));
    if (arrived != static_cast<int>(count))
      return make_error(ErrorCode::kMismatch, transfer.peer,
                        "rank {} sent {} elements, {} were expected", transfer.peer, arrived,
                        count);
    if (transfer.kind != ActionKind::kCombine) continue;
    const std::size_t offset = transfer.done * message_elements_ * size_of(request_.type);
    if (count > 0)
      kernel::kernels().combine(request_.type, request_.reduce_op, transfer.data + offset,
                                slot(transfer, transfer.done), count);
    if (transfer.posted < transfer.messages) TALLY_TRY(post(transfer));
  }
  return true;
}

// After a library call with kAverage the sum is in place, where this rank has a result at all.
void MpiOperation::divide_result() const {
  if (request_.reduce_op != ReduceOp::kAverage) return;
  std::size_t count = request_.count;
  if (request_.operation == Operation::kReduceScatter && !request_.counts.empty())
    count = request_.counts[static_cast<std::size_t>(scene_.site.rank)];
  const bool has_result =
      request_.operation == Operation::kAllreduce ||
      request_.operation == Operation::kReduceScatter ||
      (request_.operation == Operation::kReduce && request_.root == scene_.site.rank);
  if (has_result && count > 0)
    kernel::kernels().divide(request_.type, request_.output, count, scene_.site.ranks);
}

void MpiOperation::abandon(const Error& error) {
  if (complete_ || !process_.usable()) return;
  const bool point = collective::is_point(request_);
  // A schedule that has begun cannot be taken back: other ranks may have used its messages.
  bool stuck =
      library_call_ ? library_request_ != MPI_REQUEST_NULL : !point && (begun_ || step_ > 0);
  if (point && begun_) {
    const auto entry = process_.enter();
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      const bool receives = request_.operation == Operation::kReceive;
      if (!receives || !cancel_receive(request)) stuck = true;
    }
  }
  if (!stuck) return;
  // The program may go on to call MPI itself, which may then write to the scratch memory.
  (void)scratch_.release();
  process_.spoil(error);
}

}  // namespace tally::mpi
