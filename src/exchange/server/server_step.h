#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "exchange/clip.h"
#include "exchange/exchange.h"
#include "exchange/server/gradient_rooms.h"
#include "exchange/server/round_norms.h"
#include "exchange/server/server_worker.h"
#include "exchange/server/sparse_rows.h"
#include "exchange/server/step_requests.h"

namespace tally::exchange {

// The updates of a worker, one after the other:
//   begin()      policy::next_step() chooses whether to take part, push and pull.
//   announce()   allows ready() to push complete parts during backward. This requires that the
//                gradients are final: without own clipping, scaling or sums of earlier steps.
//   complete()   finishes the gradient, pushes the remaining parts, ends the round of measured
//                tables, reads the next version of the values and commits it. After an error the
//                present version is unchanged.
// Threads: calls must not overlap.
class ServerStep final {
 public:
  struct Options {
    // On measured tables of the mean gradient, else and with onebit-adam of the worker's own.
    ClipLimits clip;
    bool discards_nonfinite = false;  // updates whose gradient is not finite
    SparseRows* rows = nullptr;       // borrowed; null without sparse tables
  };
  ServerStep(ServerWorker& worker, const Options& options);

  Result<StepChoice> begin();
  Result<bool> announce(const StepContribution& contribution);
  void ready(std::size_t parameter);
  Result<StepTotals> complete(const StepContribution& contribution);
  // Between begin() and the end of complete().
  std::span<std::byte> gradient(std::size_t parameter) const;

  // asp:push=: pushes the sum that was kept for a later push.
  Result<void> flush();
  // Waits until no push uses gradients any more.
  Result<void> settle() { return rooms_.settle_all(); }
  // Gradients, and the optimizer state of the own copy.
  std::size_t memory_bytes() const;
  // Abandons the update, its requests and kept gradients.
  void give_up();
  // The values have changed between updates: the coming update begins anew.
  void renew();

 private:
  Result<StepTotals> update(const StepContribution& given);
  bool finish_gradient(bool has_gradient);
  void move_own_copy();
  void keep_gradient();
  void add_kept();
  bool is_too_late() const;
  bool is_measured() const { return worker_.tables().options().measured; }

  // asp:push=: gradients of several steps that are pushed together.
  struct Kept {
    std::vector<std::vector<std::byte>> sums;  // by table: weighted by samples
    double samples = 0;
    double steps = 0;
  };
  // The optimizer state of the own copy between pulls, by table.
  struct OwnState {
    std::vector<std::vector<std::byte>> arrays;
    std::uint64_t steps = 0;
  };

  ServerWorker& worker_;
  const ClipLimits clip_;  // of the worker's own gradient
  const bool discards_nonfinite_;
  SparseRows* const rows_;
  const bool is_plain_;  // servers keep no state: an update of the own copy is the same as theirs
  GradientRooms rooms_;
  StepRequests requests_;
  RoundNorms norms_;
  std::optional<Kept> kept_;
  std::vector<OwnState> own_;  // empty until the own copy moves

  // The current update.
  bool has_chosen_ = false;
  policy::StepChoice choice_;
  GradientRoom* room_ = nullptr;
  bool announced_ = false;
  StepContribution contribution_;
  std::vector<bool> is_ready_;  // by parameter
  std::vector<bool> is_told_;   // by parameter, since announce()
};

}  // namespace tally::exchange
