#include "adapters/nccl/nccl_operation.h"

#include <cstdint>

#include "adapters/cuda/cuda_device.h"
#include "adapters/nccl/divide.h"
#include "base/check.h"
#include "base/errors.h"

namespace tally::nccl {
namespace {

using cuda::CurrentGpu;

bool reads_input(const Request& request, Rank rank) {
  const bool from_root =
      request.operation == Operation::kBroadcast || request.operation == Operation::kScatter;
  return !from_root || request.root == rank;
}

bool writes_output(const Request& request, Rank rank) {
  const bool to_root =
      request.operation == Operation::kReduce || request.operation == Operation::kGather;
  return !to_root || request.root == rank;
}

Result<void> check_pointer(const Request& request, const void* data, std::string_view which,
                           int device) {
  if (data == nullptr) return {};  // an array without elements
  const std::string_view operation = to_string(request.operation);
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(request.type) != 0)
    return invalid("{}: memory of the GPU must be aligned to its elements, and the {} is not",
                   operation, which);
  cudaPointerAttributes attributes{};
  const cudaError_t status = cudaPointerGetAttributes(&attributes, data);
  if (status != cudaSuccess && status != cudaErrorInvalidValue)
    return cuda_error(status, "looking at the memory of an operation");
  if (status != cudaSuccess || attributes.type == cudaMemoryTypeUnregistered) {
    (void)cudaGetLastError();
    return invalid(
        "{}: the {} is in ordinary memory, and NCCL needs memory of GPU {}: copy it "
        "there first",
        operation, which, device);
  }
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != device)
    return invalid("{}: the {} is on GPU {}, and this communicator is on GPU {}", operation, which,
                   attributes.device, device);
  return {};
}

}  // namespace

ncclDataType_t type_of(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return ncclFloat32;
    case DataType::kFloat64:
      return ncclFloat64;
    case DataType::kFloat16:
      return ncclFloat16;
    case DataType::kBFloat16:
      return ncclBfloat16;
    case DataType::kInt8:
      return ncclInt8;
    case DataType::kUInt8:
      return ncclUint8;
    case DataType::kInt32:
      return ncclInt32;
    case DataType::kInt64:
      return ncclInt64;
  }
  TALLY_UNREACHABLE();
}

ncclRedOp_t op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return ncclSum;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kProduct:
      return ncclProd;
  }
  TALLY_UNREACHABLE();
}

Result<void> check_memory(const Request& request, const NcclGroup& group) {
  const CurrentGpu current(group.device());
  if (reads_input(request, group.rank()))
    TALLY_TRY(check_pointer(request, request.input, "input", group.device()));
  if (writes_output(request, group.rank()))
    TALLY_TRY(check_pointer(request, request.output, "output", group.device()));
  return {};
}

Result<bool> NcclOperation::advance(bool all_entered) {
  if (!all_entered) return false;
  if (stage_ == Stage::kOnStream) return group_.passed(done_);
  const CurrentGpu current(group_.device());
  ncclResult_t code = ncclSuccess;
  if (stage_ == Stage::kWaiting) {
    stage_ = Stage::kIssued;
    code = issue();
  }
  TALLY_TRY(const bool settled, group_.settled(code));
  if (!settled) return false;
  TALLY_TRY(divide_average());
  TALLY_TRY(check(cudaEventRecord(done_, group_.stream()), "recording the end of an operation"));
  stage_ = Stage::kOnStream;
  return false;
}

std::size_t NcclOperation::parts(std::size_t rank) const {
  return request_.counts.empty() ? request_.count : request_.counts[rank];
}

ncclResult_t NcclOperation::issue() {
  const Request& r = request_;
  if (r.counts.empty() && r.count == 0) return ncclSuccess;
  const Nccl& nccl = group_.nccl();
  const ncclComm_t comm = group_.comm();
  const cudaStream_t stream = group_.stream();
  const ncclDataType_t type = type_of(r.type);
  const ncclRedOp_t op = op_of(r.reduce_op);
  switch (r.operation) {
    case Operation::kAllreduce:
      return nccl.all_reduce(r.input, r.output, r.count, type, op, comm, stream);
    case Operation::kBroadcast:
      return nccl.broadcast(group_.rank() == r.root ? r.input : r.output, r.output, r.count, type,
                            r.root, comm, stream);
    case Operation::kReduce:
      return nccl.reduce(r.input, group_.rank() == r.root ? r.output : nullptr, r.count, type, op,
                         r.root, comm, stream);
    case Operation::kReduceScatter:
      if (!r.counts.empty()) return issue_parts();
      return nccl.reduce_scatter(r.input, r.output, r.count, type, op, comm, stream);
    case Operation::kAllgather:
      if (!r.counts.empty()) return issue_parts();
      return nccl.all_gather(r.input, r.output, r.count, type, comm, stream);
    case Operation::kGather:
    case Operation::kScatter:
    case Operation::kAllToAll:
      return issue_parts();
    case Operation::kBarrier:
    case Operation::kSend:
    case Operation::kReceive:
      break;
  }
  TALLY_UNREACHABLE();
}

// All calls of the group run at once. Parts without elements are left out on both sides.
ncclResult_t NcclOperation::issue_parts() {
  const Request& r = request_;
  const Nccl& nccl = group_.nccl();
  const ncclComm_t comm = group_.comm();
  const cudaStream_t stream = group_.stream();
  const ncclDataType_t type = type_of(r.type);
  const ncclRedOp_t op = op_of(r.reduce_op);
  const std::size_t element = size_of(r.type);
  const Rank self = group_.rank();
  const bool at_root = self == r.root;
  ncclResult_t first = nccl.group_start();
  if (first != ncclSuccess) return first;
  const auto note = [&first](ncclResult_t code) {
    if (first == ncclSuccess && code != ncclInProgress) first = code;
  };
  const auto* from = static_cast<const std::byte*>(r.input);
  auto* to = static_cast<std::byte*>(r.output);
  for (Rank rank = 0; rank < group_.size(); ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const std::size_t count = parts(index);
    const std::size_t bytes = count * element;
    switch (r.operation) {
      case Operation::kReduceScatter:
        if (count > 0)
          note(nccl.reduce(from, rank == self ? to : nullptr, count, type, op, rank, comm, stream));
        from += bytes;
        break;
      case Operation::kAllgather:
        if (count > 0)
          note(nccl.broadcast(rank == self ? from : to, to, count, type, rank, comm, stream));
        to += bytes;
        break;
      case Operation::kGather:
        if (rank == self && count > 0) note(nccl.send(from, count, type, r.root, comm, stream));
        if (!at_root) break;
        if (count > 0) note(nccl.receive(to, count, type, rank, comm, stream));
        to += bytes;
        break;
      case Operation::kScatter:
        if (rank == self && count > 0) note(nccl.receive(to, count, type, r.root, comm, stream));
        if (!at_root) break;
        if (count > 0) note(nccl.send(from, count, type, rank, comm, stream));
        from += bytes;
        break;
      default: {  // kAllToAll
        const std::size_t arriving = r.receive_counts.empty() ? r.count : r.receive_counts[index];
        if (count > 0) note(nccl.send(from, count, type, rank, comm, stream));
        if (arriving > 0) note(nccl.receive(to, arriving, type, rank, comm, stream));
        from += bytes;
        to += arriving * element;
        break;
      }
    }
  }
  const ncclResult_t end = nccl.group_end();
  return first != ncclSuccess ? first : end;
}

Result<void> NcclOperation::divide_average() {
  const Request& r = request_;
  if (r.reduce_op != ReduceOp::kAverage) return {};
  std::size_t count = 0;  // elements of the result on this rank
  if (r.operation == Operation::kAllreduce) count = r.count;
  if (r.operation == Operation::kReduceScatter) count = own_part();
  if (r.operation == Operation::kReduce && group_.rank() == r.root) count = r.count;
  return check(launch_divide(r.type, r.output, count, group_.size(), group_.stream()),
               "dividing a sum");
}

}  // namespace tally::nccl
