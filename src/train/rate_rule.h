#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::train {

enum class RateKind {
  kConstant,
  kStep,
  kMultistep,
  kCosine,
  kLinear,
  kOnecycle,
  kPlateau,
  kCustom
};

// A learning-rate schedule without its state. Fields that a kind does not use keep their defaults.
struct RateRule {
  RateKind kind = RateKind::kConstant;
  double every = 0;               // step
  std::vector<std::uint64_t> at;  // multistep; ascending
  double factor = 0.1;            // step, multistep, plateau
  double min = 0;                 // cosine, linear, plateau
  double peak = 0.3;              // onecycle, like start and end
  double start = 25;
  double end = 1e4;
  double patience = 10;     // plateau
  double threshold = 1e-4;  // plateau
  double warmup = 0;        // all
  double total = 0;         // cosine, linear, onecycle; 0: total_steps
  double total_steps = 0;
  std::function<double(std::uint64_t)> custom;
};

// As RateSchedule::parse() and text().
Result<RateRule> parse_rate_rule(std::string_view text, std::uint64_t total_steps);
std::string to_string(const RateRule& rule);

// The factor for a step, from 0. For plateau: without reductions.
double factor_of(const RateRule& rule, std::uint64_t step);

}  // namespace tally::train
