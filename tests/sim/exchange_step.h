#pragma once
#include <cstring>
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
  // Writes the gradient to gradient(parameter), or returns its place if values are on a device.
  std::function<const std::byte*(std::size_t parameter)> write_gradient;
};

// Moves the gradient to memory that the exchange adds; a gradient that is read where it was is NaN.
inline Result<const std::byte*> move_gradient(exchange::Exchange& exchange, std::size_t p) {
  const std::span<std::byte> own = exchange.gradient(p);
  TALLY_TRY(const std::span<std::byte> added, exchange.gradient_memory()->add(own.size()));
  std::memcpy(added.data(), own.data(), own.size());
  std::memset(own.data(), 0xFF, own.size());
  return added.data();
}

// The part of a step between begin() and complete(). Some steps announce their contribution, and
// some gradients lie elsewhere if the exchange allows it.
inline Result<void> compute_gradients(exchange::Exchange& exchange, const StepScript& script,
                                      const exchange::StepContribution& own) {
  TALLY_TRY(script.compute(script.before));
  if (own.samples == 0) return {};
  if (script.rng.below(2) == 0) TALLY_TRY(exchange.announce(own));
  for (const std::size_t p : script.order) {
    const std::byte* elsewhere = script.write_gradient(p);
    if (p % 3 == 1 && exchange.gradient_memory() != nullptr) {
      TALLY_TRY(elsewhere, move_gradient(exchange, p));
    }
    TALLY_TRY(exchange.ready(p, elsewhere));
    TALLY_TRY(script.compute(std::chrono::microseconds(
        script.rng.below(static_cast<std::uint64_t>(script.between.count())))));
  }
  return {};
}

}  // namespace tally::sim
