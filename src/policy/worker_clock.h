#pragma once
#include <cstdint>

#include "policy/round.h"
#include "policy/rules.h"

namespace tally::policy {

// A worker's side of the rules: what it does in its next step. All values and pure functions. A
// training loop is
//
//   WorkerClock me = join(rules, rank, answer of a first pull)
//   while (steps_done(rules, me) < total):
//     step = next_step(rules, me, steps_done(rules, me) + 1 == total)
//     if step.takes_part: compute the gradient at the values of me.version and accumulate it
//       (abandon it once is_too_late(): then do not push, and continue with the pull)
//     if step.push: push the accumulated gradient with step.clock and step.version
//     if step.pull: pull with step.read
//     if step.apply_locally: apply the gradient to the worker's own copy
//     me = after_step(rules, me, step, answer of the pull)
struct WorkerClock {
  int rank = 0;
  std::uint64_t clock = 0;           // finished steps
  std::uint64_t version = 0;         // of its values: the lowest of all parts
  std::uint64_t newest_version = 0;  // the highest version of any part that it knew when it read
  // The slowest worker's clock when it read: the lowest of all parts.
  std::uint64_t cached_clock = 0;
  // Pushes since it read whose gradients its own copy has (StepChoice::apply_locally).
  std::uint64_t own_pushes = 0;
  // The version at which the oldest accumulated gradient was computed. Own pushes count as read:
  // they are versions of the server, too.
  std::uint64_t gradient_version = 0;
};

// The answer to a pull.
struct Read {
  std::uint64_t version = 0;         // the lowest of all parts
  std::uint64_t clock = 0;           // the lowest of all parts
  std::uint64_t newest_version = 0;  // the highest known version of any part
};

// A worker that has read the values for the first time continues at the version of the others (with
// rounds of one gradient per worker), else at the slowest clock.
WorkerClock join(const Rules& rules, int rank, const Read& read);

struct StepChoice {
  // False: no gradient is computed (subset:K, not drawn).
  bool takes_part = true;
  // False: the gradient is kept and the next one is added to it (asp:push=).
  bool push = true;
  // False: the next step uses the present values (asp:fetch=; ssp with a fresh cache).
  bool pull = true;
  // Push and pull go in one request, answered when both are done, so that workers that wait for
  // each other read the same values.
  bool one_request = true;
  // Whether the next step waits for the answer to the push. It does not with asp and ssp (though
  // the gradient's memory is in use until then), nor with kbatch and kasync, whose answer comes
  // with the round, which may need more gradients of this worker. At the end of training the
  // servers finish such a push alone.
  bool wait_for_push = true;
  // Between pulls the worker updates its own copy as the server will (by plain SGD), so that it
  // reads its own writes.
  bool apply_locally = false;
  std::uint64_t clock = 0;    // finished steps, including this one
  std::uint64_t version = 0;  // of the push
  ReadRule read;              // of the pull
};

// The next step of `me`. The last step leaves no gradient accumulated and no value unread.
StepChoice next_step(const Rules& rules, const WorkerClock& me, bool is_last);

// The worker's state after the step. `read` is used if the step pulled. Versions and clocks never
// go back. With bsp, backup and subset the clock is the version: a late worker continues where the
// others are.
WorkerClock after_step(const Rules& rules, const WorkerClock& me, const StepChoice& step,
                       const Read& read);

// The progress of training: with rounds the updates of the model, else the worker's own steps.
std::uint64_t steps_done(const Rules& rules, const WorkerClock& me);

// Whether servers have continued without this worker's gradient since it read (backup, kbatch of
// one version; with stale=drop:T by more than T versions), so that the gradient need not be
// finished or sent. A worker that has begun to push a gradient finishes it (`has_begun`), so that
// all parts get the same gradients. Never true with bsp and subset: there the newer version of one
// part may contain this very gradient, and other parts wait for it.
bool is_too_late(const Rules& rules, const WorkerClock& me, std::uint64_t newest_version,
                 bool has_begun);

// ssp:S: whether values that were read at `cached_clock` of the slowest worker are fresh enough for
// the step after `clock` finished steps.
bool is_fresh(const Rules& rules, std::uint64_t cached_clock, std::uint64_t clock);

}  // namespace tally::policy
