#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tally/communicator.h"

namespace tally::exchange {

// One message for, or from, each member of a lane.
struct Parcels {
  std::vector<std::byte> bytes;    // all messages, concatenated
  std::vector<std::size_t> sizes;  // by member

  void clear();
  std::span<const std::byte> of(int member) const;
};

// Limits on the size of parcels. With exact sizes the members do not exchange sizes first, which
// saves one round trip.
struct ParcelSizes {
  std::vector<std::size_t> at_most;  // by sender
  bool exactly = false;              // parcels have exactly at_most bytes
};

class Lane;

// Messages that are on their way over a lane. When `operation` is complete, `then` starts what
// follows it. Without an operation everything has arrived.
struct Delivery {
  std::optional<Handle> operation = {};
  std::function<Result<Delivery>()> then = {};  // empty: nothing follows
  const Lane* lane = nullptr;                   // of the operation, to name the peer of an error

  // Whether an operation has yet to be started.
  bool has_more() const { return then != nullptr; }
  // Starts what follows if the operation is complete. Returns whether everything has arrived.
  Result<bool> advance();
  // Waits until everything has arrived.
  Result<void> finish();
};

// The ranks that have the same part of the model on all hosts, and the operations between them. An
// operation returns when it is started. The memory that it names must stay in place until its
// Delivery is finished. Sizes from other members are checked before memory is allocated for them.
// All members start the same operations in the same order. Threads: calls must not overlap.
class Lane final {
 public:
  // `communicator` must outlive the lane. It is null if the lane has one member; the operations are
  // then local. `ranks` are the members' ranks in the job, for error messages.
  Lane(Communicator* communicator, std::vector<Rank> ranks);

  int size() const { return static_cast<int>(ranks_.size()); }
  int self() const { return communicator_ == nullptr ? 0 : communicator_->rank(); }
  Rank rank_of(int member) const { return ranks_[static_cast<std::size_t>(member)]; }

  // Sends out.of(m) to member m, and receives its parcel into in.of(m). kCorrupt if a parcel has
  // more than sizes.at_most[m] bytes.
  Delivery exchange(const Parcels& out, const ParcelSizes& sizes, Parcels& in);
  // Sends `own` to all members; all.of(m) is the data of member m. Otherwise as exchange().
  Delivery gather(std::span<const std::byte> own, const ParcelSizes& sizes, Parcels& all);
  // Element by element, with the same bits on all members.
  Delivery sum(std::span<float> values);
  // An array of numbers of which each member has one part, in the order of members.
  struct Parts {
    DataType type = DataType::kFloat32;
    std::span<const std::size_t> counts;  // by member
  };
  // sum_parts() writes the sum of this member's part; gather_parts() sends each member's part to
  // all. Both do nothing in a lane of one member: the caller's data stays in place.
  Delivery sum_parts(std::span<const std::byte> all, const Parts& parts, std::span<std::byte> own);
  Delivery gather_parts(std::span<const std::byte> own, const Parts& parts,
                        std::span<std::byte> all);
  // Ends operations that are in progress with kClosed.
  void close();
  // Ends the operations of all members with `why`, whose peer is a rank of the job.
  void abort(const Error& why);
  // An error of the lane's communicator, with the peer's rank in the job.
  Error named(Error error) const;

  // Scratch memory for one encoding.
  std::span<std::byte> room(std::size_t bytes);

 private:
  Delivery start(const Request& request, std::function<Result<Delivery>()> then = {}) const;
  Result<void> learn_sizes(std::span<const std::int64_t> told, const ParcelSizes& sizes,
                           Parcels& in) const;

  Communicator* const communicator_;
  const std::vector<Rank> ranks_;
  std::vector<std::byte> room_;
};

}  // namespace tally::exchange
