#pragma once
// For tests: the rules of a plan's text.
#include <string_view>

#include "base/check.h"
#include "policy/rules.h"

namespace tally::policy {

inline Rules rules_from(std::string_view text, int workers, std::uint64_t seed = 1) {
  const auto plan = plan::parse_plan(text, {.home = plan::Home::kServer});
  TALLY_CHECK(plan.has_value());
  const auto rules = rules_of(*plan, workers, seed);
  TALLY_CHECK(rules.has_value());
  return *rules;
}

}  // namespace tally::policy
