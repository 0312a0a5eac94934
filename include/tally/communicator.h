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

// How a collective is carried out. kAuto takes the best for size, ranks and placement.
enum class Algorithm : std::uint8_t {
  kAuto,
  kDirect,  // through memory that all ranks see
  kRing,
  kHalvingDoubling,
  kTree,
  kHierarchical,  // direct inside hosts, ring or halving-doubling across them
  kPairwise,      // every rank straight to every other
};

std::string_view to_string(Operation operation);
std::string_view to_string(Algorithm algorithm);

// One operation to be carried out, as a value. Every rank of the communicator issues the same
// requests in the same order (kSend and kReceive excepted: those match by peer and tag). Memory
// named here stays the caller's, and stays put until the operation is complete.
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
// Parts are equal (`count` each) unless `counts` gives one per rank (kReduceScatter, kAllgather,
// kGather, kScatter: by rank; kAllToAll: to send; `receive_counts`: to receive). In place: input
// equals output (kReduceScatter, kGather, kScatter, kAllgather: not offered; kAllToAll neither).
struct Request {
  Operation operation = Operation::kBarrier;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kUInt8;
  ReduceOp reduce_op = ReduceOp::kSum;
  Rank root = 0;          // or the peer of kSend and kReceive
  std::uint32_t tag = 0;  // kSend and kReceive
  std::span<const std::size_t> counts = {};
  std::span<const std::size_t> receive_counts = {};
  Algorithm algorithm = Algorithm::kAuto;
  // Unset: the communicator's default timeout, counted from when the operation is issued. When it
  // has passed, peers are asked for up to a quarter of a second where they are, so that the right
  // one is named.
  std::optional<Deadline> by = {};
};

// Options of the typed calls below.
struct Call {
  Algorithm algorithm = Algorithm::kAuto;
  std::optional<Deadline> by = {};
};

// A started operation. Copies refer to the same operation. Threads: safe.
class Handle {
 public:
  class State;
  explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Ends when the operation does: by its own deadline, once the collectives issued before it have
  // ended.
  Result<void> wait();
  // Whether wait() would return at once.
  bool poll() const;
  // Calls `next` once with the outcome, from whatever thread completes the operation, or at once if
  // it is complete. `next` must not wait for operations of the same communicator; it may start
  // some.
  void then(std::function<void(const Result<void>&)> next);

 private:
  std::shared_ptr<State> state_;
};

// Memory that all ranks of this host can see, so that collectives use it in place. Zero at first.
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
  // From now on the memory outlives the buffer: it stays as it is until the membership of the job
  // ends. For what other ranks may still read.
  void keep();

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::shared_ptr<Owner> owner_;  // shared with the segment that the memory is a part of
};

// What the operations of one communicator have cost this rank so far. Counts what crossed a
// transport: memory that is read in place is not sent.
struct Traffic {
  std::uint64_t operations = 0;
  std::uint64_t steps = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
};

// A group of ranks that act together. Operations are matched by the order in which they are issued.
// After the first error of an operation the communicator refuses everything with that error. A
// request that makes no sense (kInvalid) or finds the queue of start() full (kExhausted) was never
// an operation. Threads: one thread at a time issues operations; Handles may be used from any
// thread.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  // Carries out `request` and returns when this rank's part in it is complete.
  virtual Result<void> run(const Request& request) = 0;
  // Issues `request`; a thread of the communicator carries it out.
  virtual Handle start(const Request& request) = 0;

  // Memory for collectives without copies, in this membership of the job. Ordinary memory for a
  // rank that shares none with others. kExhausted if there is not as much.
  virtual Result<SharedBuffer> allocate(std::size_t bytes) = 0;

  // Everybody's memory: for each rank the buffer that it gave, as this process sees it; empty for
  // ranks that share no memory with this one. Called by all ranks, each with a buffer of its own
  // from allocate(). The memory is there as long as its rank keeps the buffer. Who may write when
  // is for the callers to settle.
  virtual Result<std::vector<std::span<std::byte>>> share(const SharedBuffer& buffer,
                                                          Deadline by) = 0;

  // One communicator per colour, of the ranks that gave it, ordered by key and then by rank. Called
  // by all ranks. A negative colour takes part and gets nullptr.
  virtual Result<std::unique_ptr<Communicator>> split(int colour, int key, Deadline by) = 0;

  // Ends the communicator; operations under way end with kClosed. Not collective.
  virtual void close() = 0;

  virtual Traffic traffic() const = 0;
  // The last operations of this rank as text, newest last: what it did, with whom, who is awaited.
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
