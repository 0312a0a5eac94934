#pragma once
#include <cstddef>
#include <cstdint>
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

// The ranks that have the same part of the model on all hosts, and the operations between them.
// Sizes from other members are checked before memory is allocated for them. Threads: calls must not
// overlap, except close().
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
  Result<void> exchange(const Parcels& out, const ParcelSizes& sizes, Parcels& in);
  // Sends `own` to all members; all.of(m) is the data of member m. Otherwise as exchange().
  Result<void> gather(std::span<const std::byte> own, const ParcelSizes& sizes, Parcels& all);
  // Element by element, with the same bits on all members.
  Result<void> sum(std::span<float> values);
  Result<void> sum(std::span<double> values);
  // An array of numbers of which each member has one part, in the order of members.
  struct Parts {
    DataType type = DataType::kFloat32;
    std::span<const std::size_t> counts;  // by member
  };
  // sum_parts() writes the sum of this member's part; gather_parts() sends each member's part to
  // all. Both do nothing in a lane of one member: the caller's data stays in place.
  Result<void> sum_parts(std::span<const std::byte> all, const Parts& parts,
                         std::span<std::byte> own);
  Result<void> gather_parts(std::span<const std::byte> own, const Parts& parts,
                            std::span<std::byte> all);
  // Sets `number` to the first member's value on all members.
  Result<void> tell(std::int64_t& number);
  // Ends operations that are in progress with kClosed. From any thread.
  void close();

  // Scratch memory for the user of the lane, kept between calls.
  struct Memory {
    Parcels out;
    Parcels in;
    std::vector<std::byte> bytes;
    std::vector<float> values;
  };
  Memory& memory() { return memory_; }

 private:
  Result<void> learn_sizes(std::span<const std::int64_t> told, const ParcelSizes& sizes,
                           Parcels& in) const;

  Communicator* const communicator_;
  const std::vector<Rank> ranks_;
  Memory memory_;
};

}  // namespace tally::exchange
