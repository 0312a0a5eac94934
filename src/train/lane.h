#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tally/communicator.h"

namespace tally::train {

// One message for, or from, each member of a lane.
struct Parcels {
  std::vector<std::byte> bytes;    // one behind the other
  std::vector<std::size_t> sizes;  // by member

  void clear();
  std::span<const std::byte> of(int member) const;
};

// How large parcels may be. Where all know how large they are nothing is said about it, and one
// round trip is saved.
struct ParcelSizes {
  std::vector<std::size_t> at_most;  // by sender
  bool exactly = false;              // that many bytes
};

// The same part of the model on all hosts, and the ways bytes and numbers take between them. What
// comes from others is checked for its size before room is made for it. Threads: one at a time.
class Lane final {
 public:
  // `communicator`, which outlives it, is null where there is but one member: then everything stays
  // here. `ranks` are the members' in the job, which errors name.
  Lane(Communicator* communicator, std::vector<Rank> ranks);

  int size() const { return static_cast<int>(ranks_.size()); }
  int self() const { return communicator_ == nullptr ? 0 : communicator_->rank(); }
  Rank rank_of(int member) const { return ranks_[static_cast<std::size_t>(member)]; }

  // out.of(m) goes to m; in.of(m) is what m has sent here. kCorrupt if that is more than
  // sizes.at_most[m].
  Result<void> exchange(const Parcels& out, const ParcelSizes& sizes, Parcels& in);
  // `own` goes to all; all.of(m) is m's. Otherwise as exchange().
  Result<void> gather(std::span<const std::byte> own, const ParcelSizes& sizes, Parcels& all);
  // Element by element, the same bits everywhere.
  Result<void> sum(std::span<float> values);
  Result<void> sum(std::span<double> values);
  // Numbers of which each member has a part, one behind the other.
  struct Parts {
    DataType type = DataType::kFloat32;
    std::span<const std::size_t> counts;  // by member
  };
  // The sums of this member's part, and everybody's part to all. Alone nothing is done: all there
  // is stays where it is.
  Result<void> sum_parts(std::span<const std::byte> all, const Parts& parts,
                         std::span<std::byte> own);
  Result<void> gather_parts(std::span<const std::byte> own, const Parts& parts,
                            std::span<std::byte> all);
  // The first member's number becomes everybody's.
  Result<void> tell(std::int64_t& number);
  // What is under way ends with kClosed. From any thread.
  void close();

  // For whoever uses the lane, from one call to the next.
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

}  // namespace tally::train
