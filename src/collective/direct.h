#pragma once
#include <cstddef>
#include <vector>

#include "collective/mailbox.h"
#include "collective/schedule.h"
#include "collective/shared_area.h"
#include "collective/task.h"
#include "tally/types.h"

namespace tally::collective {

// A collective inside one host, as seen by one member. The vector is cut into one slice per member,
// which that member finishes: it combines the slices of all inputs, or provides the slice itself.
//
//   operation       combine  input          output         own_slice        slices
//   all-reduce      yes      vector         vector         in output        equal parts
//   reduce          yes      vector         vector (root)  -                equal parts
//   reduce-scatter  yes      vector         -              the result       the parts
//   scatter         yes      vector (root)  -              the result       the parts
//   all-gather      no       own slice      vector         -                the parts
//   gather          no       own slice      vector (root)  -                the parts
//   broadcast       no       all (root)     vector         -                all for root, else none
struct DirectPlan {
  bool combine = true;
  DataType type = DataType::kUInt8;
  ReduceOp op = ReduceOp::kSum;
  int divisor = 1;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* own_slice = nullptr;  // where the own finished slice goes apart from `output`
  std::vector<Part> slices;        // by member, in elements, in order and without gaps
};

// Runs a DirectPlan. All members first announce the location of their memory. Then:
//
// If all memory is visible to all, members read each other's inputs and write each other's outputs:
// one piece, nothing is copied.
//
// Otherwise the vector goes in pieces, so that the others find in their caches what one member
// writes. Piece k of every slice goes through three phases; while one piece is combined, the next
// is staged and the previous one is taken out:
//
//   stage    copy the input's piece to where the others can see it; publish an arrival
//   finish   when all have arrived: combine the pieces of the own slice; publish a reduction
//   take     when all have reduced: copy the others' finished pieces to the own output
//
// Two members that all-reduce private memory each combine everything: this moves no more bytes
// between them than exchanging results would, and saves a phase.
class DirectTask final : public Task {
 public:
  DirectTask(SharedArea& area, Mailbox& mailbox, const Notice& notice, DirectPlan plan);

  Result<Progress> advance() override;
  bool ready() const override;
  std::vector<Rank> awaited() const override;
  void cancel() override {}

 private:
  struct Member {
    Place::Kind input_kind = Place::Kind::kNone;
    Place::Kind output_kind = Place::Kind::kNone;
    const std::byte* input = nullptr;  // kVisible
    std::byte* output = nullptr;       // kVisible
  };
  std::size_t bytes(std::size_t elements) const { return elements * size_of(plan_.type); }
  Result<bool> advance_piece();
  Part piece_of(int member, std::size_t piece) const;
  bool is_redundant() const;
  bool can_stage() const;
  void stage(std::size_t piece);
  Result<void> meet();
  void choose_pieces();
  std::uint32_t arrivals_for(std::size_t pieces) const;
  void finish(std::size_t piece);
  void combine_slice(std::size_t piece, Part part);
  void combine_everything(std::size_t piece);
  void take(std::size_t piece);
  const std::byte* finished(int member, std::size_t piece, Part part) const;
  bool all_arrived(std::uint32_t total) const;
  bool all_reduced(std::uint32_t total) const;

  SharedArea& area_;
  Mailbox& mailbox_;
  const Notice notice_;
  const DirectPlan plan_;
  std::vector<Member> members_;
  std::size_t piece_elements_ = 0;
  std::size_t pieces_ = 1;
  bool announced_ = false;    // the first arrival is published
  bool met_ = false;          // all have arrived for the first time: places are known
  bool all_visible_ = false;  // nothing is staged
  bool redundant_ = false;    // every member combines everything
  bool closing_ = false;      // others read this member's own memory: leave together
  const std::uint32_t arrivals_before_;
  const std::uint32_t reductions_before_;
  std::size_t staged_ = 0;
  std::size_t finished_ = 0;
  std::size_t taken_ = 0;
};

// All-reduce of at most SharedArea::kSlotBytes, or a barrier, with the fewest possible steps.
//
//   private memory   each member copies its input to a slot and, when all have arrived, combines
//                    all slots by itself: one synchronisation
//   visible memory   when all have arrived each member combines its slice into all outputs; a
//                    second synchronisation tells that all slices are done
//   some of each     each member combines everything, from slots and visible memory, and writes
//                    its output when no member reads inputs any more
class SlotTask final : public Task {
 public:
  SlotTask(SharedArea& area, Mailbox& mailbox, const Notice& notice, const DirectPlan& plan,
           std::size_t count);

  Result<Progress> advance() override;
  bool ready() const override { return all_there() || mailbox_.failed(); }
  std::vector<Rank> awaited() const override;
  void cancel() override {}

 private:
  enum class Way { kSlots, kVisible, kMixed };

  bool is_there(int member) const;
  bool all_there() const;
  Result<void> meet();
  void combine_slots();
  void combine_slice();
  void combine_mixed();

  SharedArea& area_;
  Mailbox& mailbox_;
  const Notice& notice_;
  const DirectPlan& plan_;
  const std::size_t count_;
  const std::uint32_t turn_;
  const std::uint32_t arrivals_;
  const std::uint32_t reductions_;
  bool met_ = false;
  Way way_ = Way::kSlots;
};

// kMismatch if a member announced another operation under this number.
Result<void> compare_notices(const SharedArea& area, const Notice& mine);

}  // namespace tally::collective
