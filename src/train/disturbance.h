#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::train {

// Slowness that is put into a training on purpose, to see what an update policy is worth. A value:
// what it makes of a step depends on seed, rank and step alone.
struct Disturbance {
  // A rank whose steps take `factor` times as long as its computing.
  struct Straggler {
    Rank rank = 0;
    double factor = 1;
    friend bool operator==(const Straggler&, const Straggler&) = default;
  };
  // Time that is added to every step of every rank.
  struct Delay {
    bool exponential = false;  // else it is the mean, always
    Duration mean{};
    double of_compute = 0;  // and so many times the step's own computing
    friend bool operator==(const Delay&, const Delay&) = default;
  };

  std::vector<Straggler> stragglers;
  std::optional<Delay> delay;
  std::uint64_t seed = 1;

  bool is_none() const { return stragglers.empty() && !delay; }
};

// "rank=1,factor=4", several with ";" between them; "": none. Factors are from 1 to 1000, and no
// rank comes twice. kInvalid for anything else.
Result<std::vector<Disturbance::Straggler>> parse_stragglers(std::string_view text);

// "exponential:20ms", "constant:5ms"; "exponential:1x": 1 times the step's computing. "": none.
// kInvalid for anything else.
Result<std::optional<Disturbance::Delay>> parse_delay(std::string_view text);

// How long `rank` sleeps in its step number `step`, whose computing took `compute`.
Duration sleep_of(const Disturbance& disturbance, Rank rank, std::uint64_t step, Duration compute);

}  // namespace tally::train
