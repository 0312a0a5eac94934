#include <nccl.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "adapters/nccl/emulation/clique.h"
#include "adapters/nccl/emulation/faults.h"
#include "base/check.h"
#include "base/mutex.h"

// NCCL in ordinary memory. The ranks of a communicator are threads of one process, and the work of
// a rank runs on the streams of the CUDA emulation. Communicators must not block. The emulation is
// stricter than NCCL where Tally could make a mistake that seldom shows:
//   - A call never does its part at once. It is on the stream after ncclCommGetAsyncError() has
//     been asked twice. Work that is put behind it too early comes before it.
//   - A call before that is ncclInvalidUsage.
//   - A collective that another rank calls with other arguments is an error.
using tally::Mutex;
using tally::MutexLock;
using tally::nccl::emulation::Call;
using tally::nccl::emulation::Clique;
using tally::nccl::emulation::Fault;
using tally::nccl::emulation::is_faulty;

namespace {

// How often a rank asks until a call has done its part.
constexpr int kAsksUntilDone = 2;

// The work of one rank in a clique.
struct State {
  State(std::shared_ptr<Clique> ranks, int number) : clique(std::move(ranks)), rank(number) {}

  const std::shared_ptr<Clique> clique;  // shared by all ranks
  const int rank;
  bool is_connected = false;
  std::vector<Call> taking;  // a group that is not on its stream yet
  cudaStream_t stream = nullptr;
  int asks = 0;
  ncclResult_t error = ncclSuccess;
};

// Of the calling thread.
struct Group {
  int depth = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Call> calls;
};
thread_local Group group;

struct Cliques {
  Mutex mutex;
  std::map<int, std::weak_ptr<Clique>> by_id TALLY_GUARDED_BY(mutex);
  int next TALLY_GUARDED_BY(mutex) = 1;
};
Cliques& cliques() {
  static Cliques all;
  return all;
}

std::atomic<int> faulty{-1};  // a Fault
std::atomic<int> faulty_rank{0};
std::atomic<int> open_count{0};
std::atomic<int> group_count{0};
std::atomic<int> aborts{0};  // that have begun under Fault::kAbort

// The work of a stream.
struct Batch {
  std::shared_ptr<Clique> clique;  // outlives the communicator
  int rank;
  std::vector<Call> calls;
};
void run_batch(void* data) {
  const std::unique_ptr<Batch> batch(static_cast<Batch*>(data));
  batch->clique->run(batch->rank, batch->calls);
}

tally::DataType type_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return tally::DataType::kInt8;
    case ncclUint8:
      return tally::DataType::kUInt8;
    case ncclInt32:
      return tally::DataType::kInt32;
    case ncclInt64:
      return tally::DataType::kInt64;
    case ncclFloat16:
      return tally::DataType::kFloat16;
    case ncclFloat32:
      return tally::DataType::kFloat32;
    case ncclFloat64:
      return tally::DataType::kFloat64;
    case ncclBfloat16:
      return tally::DataType::kBFloat16;
  }
  TALLY_UNREACHABLE();
}

tally::ReduceOp op_of(ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
      return tally::ReduceOp::kSum;
    case ncclProd:
      return tally::ReduceOp::kProduct;
    case ncclMax:
      return tally::ReduceOp::kMax;
    case ncclMin:
      return tally::ReduceOp::kMin;
  }
  TALLY_UNREACHABLE();
}

}  // namespace

struct ncclComm {
  State state;
};

namespace {

ncclResult_t add(const Call& call, ncclComm_t comm, cudaStream_t stream) {
  State& state = comm->state;
  if (!state.is_connected || !state.taking.empty()) return ncclInvalidUsage;
  if (state.error != ncclSuccess) return state.error;
  if (is_faulty(Fault::kCall, state.rank)) return state.error = ncclSystemError;
  const bool is_alone = group.depth == 0;
  if (is_alone) (void)ncclGroupStart();
  if (group.comm != nullptr && (group.comm != comm || group.stream != stream))
    return ncclInvalidUsage;
  group.comm = comm;
  group.stream = stream;
  group.calls.push_back(call);
  return is_alone ? ncclGroupEnd() : ncclSuccess;
}

// Puts the group on its stream.
ncclResult_t launch(State& state) {
  std::vector<Call> calls = std::exchange(state.taking, {});
  if (is_faulty(Fault::kLater, state.rank)) return state.error = ncclSystemError;
  if (is_faulty(Fault::kHang, state.rank))
    calls.assign(1, {.kind = Call::Kind::kReceive, .peer = state.rank});
  auto batch = std::make_unique<Batch>(Batch{state.clique, state.rank, std::move(calls)});
  if (cudaLaunchHostFunc(state.stream, run_batch, batch.get()) != cudaSuccess)
    return state.error = ncclUnhandledCudaError;
  (void)batch.release();  // run_batch() deletes it
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version =
      is_faulty(Fault::kOldVersion, faulty_rank) ? NCCL_VERSION(2, 17, 1) : NCCL_VERSION(2, 28, 9);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t /*comm*/) { return "a fault of the emulation"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (is_faulty(Fault::kUniqueId, faulty_rank)) return ncclSystemError;
  Cliques& all = cliques();
  const MutexLock lock(all.mutex);
  *id = {};
  std::memcpy(id->internal, &all.next, sizeof(all.next));
  ++all.next;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *comm = nullptr;
  if (config->blocking != 0 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  if (is_faulty(Fault::kConnect, rank)) return ncclSystemError;
  Cliques& all = cliques();
  const MutexLock lock(all.mutex);
  int number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  if (number <= 0 || number >= all.next) return ncclInvalidArgument;
  std::weak_ptr<Clique>& known = all.by_id[number];
  std::shared_ptr<Clique> clique = known.lock();
  if (clique == nullptr) {
    clique = std::make_shared<Clique>(ranks);
    known = clique;
  }
  if (clique->size() != ranks) return ncclInvalidArgument;
  if (!is_faulty(Fault::kNoAnswer, rank)) clique->enter();
  *comm = new ncclComm{State(std::move(clique), rank)};
  ++open_count;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  State& state = comm->state;
  *result = ncclInProgress;
  if (!state.is_connected) {
    state.is_connected = state.clique->is_complete();
    return ncclSuccess;
  }
  if (!state.taking.empty()) {
    if (++state.asks < kAsksUntilDone) return ncclSuccess;
    *result = launch(state);
    return ncclSuccess;
  }
  *result = state.error != ncclSuccess ? state.error : state.clique->error();
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const int rank = comm->state.rank;
  comm->state.clique->abort(rank);
  if (is_faulty(Fault::kAbort, rank)) ++aborts;
  while (is_faulty(Fault::kAbort, rank) && aborts < 2) std::this_thread::yield();
  delete comm;
  --open_count;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0 || group.comm == nullptr) return ncclSuccess;
  ++group_count;
  State& state = group.comm->state;
  state.taking = std::exchange(group.calls, {});
  state.stream = group.stream;
  state.asks = 0;
  group = {};
  return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add({.kind = Call::Kind::kAllReduce,
              .from = from,
              .to = to,
              .count = count,
              .type = type_of(type),
              .op = op_of(op)},
             comm, stream);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add({.kind = Call::Kind::kReduceScatter,
              .from = from,
              .to = to,
              .count = count,
              .type = type_of(type),
              .op = op_of(op)},
             comm, stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return add({.kind = Call::Kind::kAllGather,
              .from = from,
              .to = to,
              .count = count,
              .type = type_of(type)},
             comm, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add({.kind = Call::Kind::kBroadcast,
              .from = from,
              .to = to,
              .count = count,
              .type = type_of(type),
              .peer = root},
             comm, stream);
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return add({.kind = Call::Kind::kReduce,
              .from = from,
              .to = to,
              .count = count,
              .type = type_of(type),
              .op = op_of(op),
              .peer = root},
             comm, stream);
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add({.kind = Call::Kind::kSend,
              .from = from,
              .count = count,
              .type = type_of(type),
              .peer = peer},
             comm, stream);
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(
      {.kind = Call::Kind::kReceive, .to = to, .count = count, .type = type_of(type), .peer = peer},
      comm, stream);
}

namespace tally::nccl::emulation {

ScopedFault::ScopedFault(Fault fault, int rank) {
  aborts = 0;
  faulty_rank = rank;
  faulty = static_cast<int>(fault);
}
ScopedFault::~ScopedFault() { faulty = -1; }

bool is_faulty(Fault fault, int rank) {
  return faulty == static_cast<int>(fault) && faulty_rank == rank;
}

int open_communicators() { return open_count; }
int issued_groups() { return group_count; }

}  // namespace tally::nccl::emulation
