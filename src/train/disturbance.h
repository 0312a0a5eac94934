#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::train {

// Artificial slowness in a training run, to measure the benefit of an update policy. A value: its
// effect on a step depends only on seed, rank, step and the step's compute time.
struct Disturbance {
  // A rank whose steps take `factor` times their compute time.
  struct Straggler {
    Rank rank = 0;
    double factor = 1;
    friend bool operator==(const Straggler&, const Straggler&) = default;
  };
  // Time added to every step of every rank.
  struct Delay {
    bool exponential = false;  // else always the mean
    Duration mean{};
    double of_compute = 0;  // plus this many times the step's compute time
    friend bool operator==(const Delay&, const Delay&) = default;
  };

  std::vector<Straggler> stragglers;
  std::optional<Delay> delay;
  std::uint64_t seed = 1;

  bool is_none() const { return stragglers.empty() && !delay; }
};

// Parses "rank=1,factor=4", several with ";" between them; "": none. Factors are from 1 to 1000,
// and each rank occurs once. kInvalid for anything else.
Result<std::vector<Disturbance::Straggler>> parse_stragglers(std::string_view text);

// Parses "exponential:20ms" or "constant:5ms"; "exponential:1x": 1 times the compute time of the
// step. "": none. kInvalid for anything else.
Result<std::optional<Disturbance::Delay>> parse_delay(std::string_view text);

// The time that `rank` sleeps in step `step`, which took `compute` to compute.
Duration sleep_of(const Disturbance& disturbance, Rank rank, std::uint64_t step, Duration compute);

}  // namespace tally::train
