#pragma once
#include <functional>
#include <vector>

#include "base/rng.h"
#include "exchange/exchange.h"

namespace tally::sim {

// How a rank computes the gradients of one step.
struct StepScript {
  Rng& rng;
  std::function<Result<void>(Duration)> compute;  // virtual time passes
  Duration before{};                              // the first gradient
  std::chrono::microseconds between{};            // gradients, at most
  std::vector<std::size_t> order;                 // in which gradients become ready
  std::function<void(std::size_t parameter)> write_gradient;
};

// The part of a step between begin() and complete(). Some steps announce their contribution.
inline Result<void> compute_gradients(exchange::Exchange& exchange, const StepScript& script,
                                      const exchange::StepContribution& own) {
  TALLY_TRY(script.compute(script.before));
  if (own.samples == 0) return {};
  if (script.rng.below(2) == 0) TALLY_TRY(exchange.announce(own));
  for (const std::size_t p : script.order) {
    script.write_gradient(p);
    TALLY_TRY(exchange.ready(p));
    TALLY_TRY(script.compute(std::chrono::microseconds(
        script.rng.below(static_cast<std::uint64_t>(script.between.count())))));
  }
  return {};
}

}  // namespace tally::sim
