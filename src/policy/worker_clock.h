#pragma once
#include <cstdint>

#include "policy/round.h"
#include "policy/rules.h"

namespace tally::policy {

// A worker's side of the rules: what it does in its next step. Values and functions; a training
// loop goes
//
//   WorkerClock me = join(rules, rank, answer of a first pull)
//   while (steps_done(rules, me) < total):
//     const StepChoice step = next_step(rules, me, steps_done(rules, me) + 1 == total)
//     if (step.takes_part) compute the gradient at the values of me.version and add it to what is
//     accumulated
//        (given up as soon as is_too_late(): then no push, and the step goes on with the pull)
//     push what is accumulated if step.push, with step.clock and step.version; pull if step.pull,
//     by step.read if (step.apply_locally) move the worker's own copy by its gradient me =
//     after_step(rules, me, step, answer of the pull)
struct WorkerClock {
  int rank = 0;
  std::uint64_t clock = 0;           // steps that it has finished
  std::uint64_t version = 0;         // of the values that it has: the least of all parts
  std::uint64_t newest_version = 0;  // that it knew of when it read them, of any part
  // The slowest worker's, when it read them: the least of all parts.
  std::uint64_t cached_clock = 0;
  // That the oldest gradient which is accumulated was computed at.
  std::uint64_t gradient_version = 0;
};

// What the answer to a pull told.
struct Read {
  std::uint64_t version = 0;         // the least of all parts
  std::uint64_t clock = 0;           // the least of all parts
  std::uint64_t newest_version = 0;  // the largest that is known of any part
};

// A worker that has come and has read the values for the first time: it goes on where the others
// are. With rounds of one gradient per worker that is the version, else the slowest clock.
WorkerClock join(const Rules& rules, int rank, const Read& read);

struct StepChoice {
  // Else no gradient is computed (subset:K, not drawn).
  bool takes_part = true;
  // Now; else the gradient is kept and the next one is added to it (asp:push=).
  bool push = true;
  // Else the next step goes on with the values that are there (asp:fetch=; ssp with a cache that is
  // fresh enough).
  bool pull = true;
  // Push and pull in one request, answered when both hold: so that workers that wait for each other
  // read the same values.
  bool one_request = true;
  // Whether the next step has to wait for the push's answer. Not with asp and ssp (but its memory
  // is in use until then); nor with kbatch, where the answer comes with the round, which may need
  // more gradients of this worker: at the end of training such a push is left to the servers.
  bool wait_for_push = true;
  // Between pulls the worker moves its own copy as the server will (by plain SGD): it reads its own
  // writes.
  bool apply_locally = false;
  std::uint64_t clock = 0;    // that it has finished with this step
  std::uint64_t version = 0;  // of the push
  ReadRule read;              // of the pull
};

// The step that `me` is about to do. In the last one nothing stays accumulated or unread.
StepChoice next_step(const Rules& rules, const WorkerClock& me, bool is_last);

// Where it stands then. `read` is looked at if the step pulled; versions and clocks never fall.
// With bsp, backup and subset the clock is the version: a worker that came too late goes on where
// the others are.
WorkerClock after_step(const Rules& rules, const WorkerClock& me, const StepChoice& step,
                       const Read& read);

// What the length of a training is counted in: with rounds updates of the model, else the worker's
// own steps.
std::uint64_t steps_done(const Rules& rules, const WorkerClock& me);

// Servers have gone on without this worker's gradient since it read (backup, kbatch; with
// stale=drop:T by more than T versions): it need not be finished or sent. A worker that has begun
// to push a gradient finishes it (`has_begun`), so that all parts get the same ones. Never true
// with bsp and subset: there, the newer version of one part may have come about by this very
// gradient, and other parts wait for it.
bool is_too_late(const Rules& rules, const WorkerClock& me, std::uint64_t newest_version,
                 bool has_begun);

// ssp:S: values that were read at `cached_clock` of the slowest worker do for the step after
// `clock` finished ones.
bool is_fresh(const Rules& rules, std::uint64_t cached_clock, std::uint64_t clock);

}  // namespace tally::policy
