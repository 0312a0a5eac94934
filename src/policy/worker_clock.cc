#include "policy/worker_clock.h"

#include <algorithm>

namespace tally::policy {

using plan::Update;

namespace {

// Whether an update has at most one gradient per worker: then the clock of a worker is the version.
bool counts_versions(const Rules& rules) { return rules.has_rounds() && !rules.counts_gradients(); }

}  // namespace

WorkerClock join(const Rules& rules, int rank, const Read& read) {
  return {.rank = rank,
          .clock = counts_versions(rules) ? read.version : read.clock,
          .version = read.version,
          .newest_version = std::max(read.version, read.newest_version),
          .cached_clock = read.clock,
          .gradient_version = read.version};
}

StepChoice next_step(const Rules& rules, const WorkerClock& me, bool is_last) {
  StepChoice step{.clock = me.clock + 1, .version = me.gradient_version};
  step.takes_part = takes_part(rules, me.rank, me.version);
  step.push = step.takes_part &&
              (is_last || rules.update != Update::kAsp || step.clock % rules.push_every == 0);
  if (rules.update == Update::kAsp) step.pull = step.clock % rules.fetch_every == 0;
  if (rules.update == Update::kSsp) step.pull = !is_fresh(rules, me.cached_clock, step.clock);
  step.pull = step.pull || is_last;
  step.wait_for_push = step.push && counts_versions(rules);
  step.one_request = step.push && step.pull && !rules.counts_gradients();
  step.apply_locally = !step.pull;
  step.read = read_rule(rules, me.version, step.clock);
  return step;
}

WorkerClock after_step(const Rules& rules, const WorkerClock& me, const StepChoice& step,
                       const Read& read) {
  WorkerClock next = me;
  next.clock = step.clock;
  if (step.pull) {
    next.version = std::max(me.version, read.version);
    next.newest_version = std::max({me.newest_version, read.version, read.newest_version});
    next.cached_clock = std::max(me.cached_clock, read.clock);
    next.own_pushes = 0;
  } else if (step.push && step.apply_locally) {
    ++next.own_pushes;
  }
  if (counts_versions(rules)) next.clock = std::max(next.clock, next.version);
  if (step.push || !step.takes_part) next.gradient_version = next.version + next.own_pushes;
  return next;
}

std::uint64_t steps_done(const Rules& rules, const WorkerClock& me) {
  return rules.has_rounds() ? me.version : me.clock;
}

bool is_too_late(const Rules& rules, const WorkerClock& me, std::uint64_t newest_version,
                 bool has_begun) {
  if (has_begun || newest_version <= me.newest_version) return false;
  if (rules.has_rounds() && !rules.any_version) {
    return rules.update == Update::kBackup || rules.update == Update::kKbatch;
  }
  return rules.stale == plan::Stale::kDrop && newest_version > me.gradient_version &&
         newest_version - me.gradient_version > rules.drop_above;
}

bool is_fresh(const Rules& rules, std::uint64_t cached_clock, std::uint64_t clock) {
  return cached_clock >= read_rule(rules, 0, clock).least_clock;
}

}  // namespace tally::policy
