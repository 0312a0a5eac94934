#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "exchange/clip.h"
#include "exchange/exchange.h"
#include "exchange/server/gradient_rooms.h"
#include "exchange/server/server_worker.h"
#include "exchange/server/sparse_rows.h"
#include "exchange/server/step_requests.h"

namespace tally::exchange {

// The updates of a worker, one after the other:
//   begin()      policy::next_step() chooses whether to take part, push and pull.
//   announce()   allows ready() to push complete parts during backward. This requires that the
//                gradients are final: without clipping, scaling or sums of earlier steps.
//   complete()   finishes the gradient, pushes the remaining parts, reads the next version of the
//                values and commits it. After an error the present version is unchanged.
// Threads: calls must not overlap.
class ServerStep final {
 public:
  // `clip` is for this worker's own gradient; `rows` is borrowed, and null without sparse tables.
  ServerStep(ServerWorker& worker, const ClipLimits& clip, SparseRows* rows);

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
  std::size_t gradient_bytes() const { return rooms_.count() * worker_.tables().bytes(); }
  // Abandons the update, its requests and kept gradients.
  void give_up();
  // The values have changed between updates: the coming update begins anew.
  void renew();

 private:
  Result<StepTotals> update(const StepContribution& given);
  void finish_gradient(bool has_gradient);
  void move_own_copy();
  void keep_gradient();
  void add_kept();
  bool is_too_late() const;

  ServerWorker& worker_;
  const ClipLimits clip_;
  SparseRows* const rows_;
  const bool is_plain_;  // this worker can update its own copy as servers do
  GradientRooms rooms_;
  StepRequests requests_;
  // By table: the sum for a later push; empty: none.
  std::vector<std::vector<std::byte>> kept_;

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
