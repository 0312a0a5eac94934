#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tally/deadline.h"
#include "tally/error.h"
#include "tally/types.h"

namespace tally {

enum class Operation : std::uint8_t {
  kBarrier,
  kAllreduce,
  kReduceScatter,
  kAllgather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kSend,
  kReceive,
};

// The algorithm of a collective. kAuto chooses by message size, number of ranks and placement.
enum class Algorithm : std::uint8_t {
  kAuto,
  kDirect,  // through memory that all ranks share
  kRing,
  kHalvingDoubling,
  kTree,
  kHierarchical,  // kDirect inside hosts, kRing or kHalvingDoubling across them
  kPairwise,      // every rank sends directly to every other rank
};

std::string_view to_string(Operation operation);
std::string_view to_string(Algorithm algorithm);

// One operation. Every rank of the communicator issues the same requests in the same order, except
// kSend and kReceive, which match by peer and tag. The caller owns all memory named here and keeps
// it in place until the operation is complete.
//
//   operation       input                    output                    count is per
//   kBarrier        -                        -                         -
//   kAllreduce      count                    count                     rank
//   kReduceScatter  sum of all parts         own part                  rank's part
//   kAllgather      own part                 all parts in rank order   rank's part
//   kBroadcast      count (at root)          count                     rank
//   kReduce         count                    count (at root)           rank
//   kGather         own part                 all parts (at root)       rank's part
//   kScatter        all parts (at root)      own part                  rank's part
//   kAllToAll       one part for each rank   one part from each rank   pair
//   kSend           count                    -                         message
//   kReceive        -                        count                     message
//
// Each part has `count` elements, unless `counts` has one number per rank. For kAllToAll `counts`
// are the sizes to send and `receive_counts` the sizes to receive. An operation runs in place if
// input equals output; kReduceScatter, kAllgather, kGather, kScatter and kAllToAll do not support
// this.
struct Request {
  Operation operation = Operation::kBarrier;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kUInt8;
  ReduceOp reduce_op = ReduceOp::kSum;
  Rank root = 0;          // root of the collective, or the peer of kSend and kReceive
  std::uint32_t tag = 0;  // kSend and kReceive only
  std::span<const std::size_t> counts = {};
  std::span<const std::size_t> receive_counts = {};
  Algorithm algorithm = Algorithm::kAuto;
  // If unset, the communicator's default timeout applies from the moment of issue. After the
  // deadline this rank may ask its peers for their progress for up to 250 ms, so that the error
  // names the rank that delays the operation.
  std::optional<Deadline> by = {};
};

// Options of the typed calls below.
struct Call {
  Algorithm algorithm = Algorithm::kAuto;
  std::optional<Deadline> by = {};
};

// A started operation. All copies refer to the same operation. Threads: safe.
class Handle {
 public:
  class State;
  explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Waits until the operation ends, at the latest by its own deadline after all collectives issued
  // before it have ended.
  Result<void> wait();
  // True if wait() would return immediately.
  bool poll() const;
  // Calls `next` once with the outcome: on the thread that completes the operation, or immediately
  // if the operation is complete. `next` must not wait for operations of the same communicator; it
  // may start operations.
  void then(std::function<void(const Result<void>&)> next);

 private:
  std::shared_ptr<State> state_;
};

// Memory that all ranks of this host share, so that collectives use it without a copy. Initially
// zero.
class SharedBuffer {
 public:
  class Owner;
  SharedBuffer() = default;
  SharedBuffer(std::byte* data, std::size_t bytes, std::shared_ptr<Owner> owner);
  ~SharedBuffer();
  SharedBuffer(SharedBuffer&& other) noexcept;
  SharedBuffer& operator=(SharedBuffer&& other) noexcept;

  std::span<std::byte> bytes() const { return {data_, bytes_}; }
  // The memory as whole elements of T; its start is aligned to at least 64 bytes.
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }
  // Makes the memory outlive the buffer, until the membership of the job ends. Use this for memory
  // that other ranks may still read.
  void keep();

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::shared_ptr<Owner> owner_;  // shared with the segment that holds the memory
};

// Counters of all operations of one communicator on this rank. Only data that crosses a transport
// counts; memory that is read in place does not.
struct Traffic {
  std::uint64_t operations = 0;
  std::uint64_t steps = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
};

// A group of ranks. Operations match by the order in which they are issued. After the first failed
// operation the communicator fails every further call with the same error. Two errors do not count
// as an operation: kInvalid (wrong arguments) and kExhausted (the queue of start() is full).
// Threads: one thread at a time issues operations; Handles may be used from any thread.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  // Runs `request` and returns when this rank's part is complete.
  virtual Result<void> run(const Request& request) = 0;
  // Issues `request`; a thread of the communicator runs it.
  virtual Handle start(const Request& request) = 0;

  // Allocates memory that collectives use without a copy, valid for this membership of the job. A
  // rank that shares memory with no other rank gets ordinary memory. Returns kExhausted if not
  // enough memory is left.
  virtual Result<SharedBuffer> allocate(std::size_t bytes) = 0;

  // Collective. Each rank passes its own buffer from allocate(). The result has the buffer of each
  // rank as mapped into this process; it is empty for ranks that share no memory with this one. A
  // buffer's memory is valid as long as its rank keeps the buffer. The callers synchronize their
  // accesses.
  virtual Result<std::vector<std::span<std::byte>>> share(const SharedBuffer& buffer,
                                                          Deadline by) = 0;

  // Collective. Creates one communicator per colour; its ranks are ordered by key, then by old
  // rank. A rank with a negative colour takes part and gets nullptr.
  virtual Result<std::unique_ptr<Communicator>> split(int colour, int key, Deadline by) = 0;

  // Ends the communicator; running operations fail with kClosed. Not collective.
  virtual void close() = 0;
  // Ends the communicator with the error `why`, on the other ranks as well: operations fail with
  // it. An engine that cannot tell the other ranks closes this rank's side. Not collective.
  virtual void abort(const Error& why);

  virtual Traffic traffic() const = 0;
  // The last operations of this rank as text, newest last: operation, peers, and the ranks that it
  // waits for.
  virtual std::string recent_operations() const = 0;

  Result<void> barrier(const Call& call = {});

  template <typename T>
  Result<void> allreduce(std::span<T> data, ReduceOp op = ReduceOp::kSum, const Call& call = {}) {
    return allreduce(std::span<const T>(data), data, op, call);
  }
  template <typename T>
  Result<void> allreduce(std::span<const T> input, std::span<T> output, ReduceOp op,
                         const Call& call = {}) {
    if (input.size() != output.size()) return sizes_differ(input.size(), output.size());
    return run({.operation = Operation::kAllreduce,
                .input = input.data(),
                .output = output.data(),
                .count = input.size(),
                .type = kDataTypeOf<T>,
                .reduce_op = op,
                .algorithm = call.algorithm,
                .by = call.by});
  }
  // `output` has 1/size() of the input's elements.
  template <typename T>
  Result<void> reduce_scatter(std::span<const T> input, std::span<T> output,
                              ReduceOp op = ReduceOp::kSum, const Call& call = {}) {
    if (input.size() != output.size() * static_cast<std::size_t>(size()))
      return sizes_differ(input.size(), output.size());
    return run({.operation = Operation::kReduceScatter,
                .input = input.data(),
                .output = output.data(),
                .count = output.size(),
                .type = kDataTypeOf<T>,
                .reduce_op = op,
                .algorithm = call.algorithm,
                .by = call.by});
  }
  template <typename T>
  Result<void> allgather(std::span<const T> input, std::span<T> output, const Call& call = {}) {
    if (output.size() != input.size() * static_cast<std::size_t>(size()))
      return sizes_differ(input.size(), output.size());
    return run({.operation = Operation::kAllgather,
                .input = input.data(),
                .output = output.data(),
                .count = input.size(),
                .type = kDataTypeOf<T>,
                .algorithm = call.algorithm,
                .by = call.by});
  }
  template <typename T>
  Result<void> broadcast(std::span<T> data, Rank root, const Call& call = {}) {
    return run({.operation = Operation::kBroadcast,
                .input = data.data(),
                .output = data.data(),
                .count = data.size(),
                .type = kDataTypeOf<T>,
                .root = root,
                .algorithm = call.algorithm,
                .by = call.by});
  }
  template <typename T>
  Result<void> send(std::span<const T> data, Rank to, std::uint32_t tag = 0,
                    const Call& call = {}) {
    return run({.operation = Operation::kSend,
                .input = data.data(),
                .count = data.size(),
                .type = kDataTypeOf<T>,
                .root = to,
                .tag = tag,
                .by = call.by});
  }
  template <typename T>
  Result<void> receive(std::span<T> data, Rank from, std::uint32_t tag = 0, const Call& call = {}) {
    return run({.operation = Operation::kReceive,
                .output = data.data(),
                .count = data.size(),
                .type = kDataTypeOf<T>,
                .root = from,
                .tag = tag,
                .by = call.by});
  }

 private:
  Error sizes_differ(std::size_t input, std::size_t output) const;
};

}  // namespace tally
